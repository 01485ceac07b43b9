/* The libraries of CUDA, opened when they are first needed: a machine may have some of them, and
 * each says by itself what is missing. Call them as cu.cuInit(0), rtc.nvrtc..., lt..., dnn... */
#ifndef CUDA_API_H
#define CUDA_API_H

#include "../diag.h"
#include <cublasLt.h>
#include <cuda.h>
#include <cudnn.h>
#include <nvrtc.h>

/* cuda.h renames its functions by macros, so that names go through one more step. (Left as
 * it is: clang-format finds another form each time.) */
/* clang-format off */
#define CU_FUNCTIONS(F) \
	F(cuInit) F(cuDriverGetVersion) F(cuGetErrorString) F(cuGetErrorName) F(cuDeviceGet) \
	F(cuDeviceGetName) F(cuDeviceGetAttribute) F(cuDeviceTotalMem) F(cuDevicePrimaryCtxRetain) F(cuCtxSetCurrent) \
	F(cuMemGetInfo) F(cuMemAlloc) F(cuMemFree) F(cuMemAllocHost) F(cuMemcpyHtoDAsync) \
	F(cuMemcpyDtoHAsync) F(cuMemcpyDtoDAsync) F(cuMemsetD8Async) F(cuStreamCreate) F(cuStreamWaitEvent) \
	F(cuStreamSynchronize) F(cuStreamBeginCapture) F(cuStreamEndCapture) \
	F(cuGraphInstantiateWithFlags) F(cuGraphDestroy) F(cuGraphExecDestroy) F(cuGraphLaunch) \
	F(cuModuleLoadData) F(cuModuleGetFunction) F(cuLaunchKernel) F(cuFuncSetAttribute) F(cuEventCreate) F(cuEventRecord) \
	F(cuEventSynchronize) F(cuEventElapsedTime) F(cuTensorMapEncodeTiled)
#define RTC_FUNCTIONS(F) \
	F(nvrtcVersion) F(nvrtcCreateProgram) F(nvrtcDestroyProgram) F(nvrtcCompileProgram) \
	F(nvrtcGetCUBINSize) F(nvrtcGetCUBIN) F(nvrtcGetProgramLogSize) F(nvrtcGetProgramLog) \
	F(nvrtcGetErrorString)
#define LT_FUNCTIONS(F) \
	F(cublasLtCreate) F(cublasLtGetVersion) F(cublasLtMatmul) F(cublasLtMatmulDescCreate) \
	F(cublasLtMatmulDescDestroy) F(cublasLtMatmulDescSetAttribute) F(cublasLtMatrixLayoutCreate) \
	F(cublasLtMatrixLayoutDestroy) F(cublasLtMatrixLayoutSetAttribute) \
	F(cublasLtMatmulPreferenceCreate) F(cublasLtMatmulPreferenceDestroy) \
	F(cublasLtMatmulPreferenceSetAttribute) F(cublasLtMatmulAlgoGetHeuristic) \
	F(cublasLtGetStatusString)
#define DNN_FUNCTIONS(F) \
	F(cudnnCreate) F(cudnnSetStream) F(cudnnGetVersion) F(cudnnGetErrorString) \
	F(cudnnGetLastErrorString) F(cudnnBackendCreateDescriptor) F(cudnnBackendDestroyDescriptor) \
	F(cudnnBackendSetAttribute) F(cudnnBackendGetAttribute) F(cudnnBackendFinalize) \
	F(cudnnBackendExecute)
/* clang-format on */

#define MEMBER(f) __typeof__(f) *f;
extern struct cu_api {
	CU_FUNCTIONS(MEMBER)
} cu;
extern struct rtc_api {
	RTC_FUNCTIONS(MEMBER)
} rtc;
extern struct lt_api {
	LT_FUNCTIONS(MEMBER)
} lt;
extern struct dnn_api {
	DNN_FUNCTIONS(MEMBER)
} dnn;
#undef MEMBER

/* Once each; false: reported, GG_MACHINE. */
bool cuda_open_driver(gg_diag *d);
bool cuda_open_rtc(gg_diag *d);
bool cuda_open_lt(gg_diag *d);
bool cuda_open_dnn(gg_diag *d);
/* What a plan will want: loaded by a thread while the device is opened, as it takes a tenth of a second. */
enum { CUDA_EXPECT_DNN = 1, CUDA_EXPECT_LT = 2 };
extern int cuda_expected;
void *cuda_load_expected(void *unused);
/* Every function of the driver and of cuBLASLt is this one. */
void cuda_stub(void *f);
/* What a call gave: 0 is good. False: reported; `what` is what was tried. */
bool cuda_ok(gg_diag *d, CUresult r, const char *what);

#endif
