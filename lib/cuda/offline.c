/* The libraries where there is no device: calls that do nothing and say that all went well, so that kernels
 * are prepared as on a device, and what they have compiled goes into the plan. NVRTC is real, and cuDNN,
 * which can choose for a device that is described. What else a library would have chosen is counted: it is
 * chosen when the plan is loaded. */
#include "cuda.h"
#include <stdlib.h>
#include <string.h>

bool cuda_is_offline;
const char *cuda_description;
static size_t products;

static int nothing(void) { return 0; }

static CUresult no_text(CUresult r, const char **out) { return *out = "", CUDA_SUCCESS; }

/* Addresses that nobody uses. */
static CUresult alloc(CUdeviceptr *p, size_t n)
{
	static CUdeviceptr next = 1 << 20;

	*p = next;
	next += (n + 511) / 512 * 512;
	return CUDA_SUCCESS;
}

static CUresult alloc_host(void **p, size_t n) { return *p = gg_xmalloc(n), CUDA_SUCCESS; }

static char something;

static CUresult function(CUfunction *f, CUmodule m, const char *name)
{
	*f = (CUfunction)(void *)&something;
	return CUDA_SUCCESS;
}

static cublasStatus_t choose(cublasLtHandle_t h, cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t a,
                             cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t y,
                             cublasLtMatmulPreference_t pref, int n, cublasLtMatmulHeuristicResult_t *out,
                             int *got)
{
	memset(out, 0, sizeof *out);
	*got = 1;
	products++;
	return CUBLAS_STATUS_SUCCESS;
}

static const char *no_lt_error(cublasStatus_t s) { return ""; }

bool cuda_open_offline(gg_diag *d, int sm, int processors)
{
	void *f;
	int (*stub)(void) = nothing;

	memcpy(&f, &stub, sizeof f);
	cuda_is_offline = true;
	cuda_sm = sm;
	cuda_processors = processors;
	cuda_stub(f);
	cu.cuGetErrorName = cu.cuGetErrorString = no_text;
	cu.cuMemAlloc = alloc;
	cu.cuMemAllocHost = alloc_host;
	cu.cuModuleGetFunction = function;
	lt.cublasLtMatmulAlgoGetHeuristic = choose;
	lt.cublasLtGetStatusString = no_lt_error;
	return cuda_open_rtc(d);
}

size_t cuda_deferred(size_t i, const char **what, bool *compiled)
{
	static const char *const name[] = {"cuBLASLt algorithm", "cuDNN engine", "cuDNN engine", "kernel"};

	*what = i < 4 ? name[i] : NULL;
	*compiled = i >= 2;
	return i == 0 ? products : i < 3 ? dnn_deferred(*compiled) : i == 3 ? cuda_failed_kernels() : 0;
}
