/* Backends: shared objects with kernels, loaded on demand (gg-cpu.so, gg-cuda.so).
 *
 * What a kernel claims stands in a host-only table (target.h), so that gg-select needs no
 * backend. What it does stands in the backend. The two meet by the kernel's name: a row without
 * a kernel does not link, because the backend's own list is made from the same rows. */
#ifndef GG_BACKEND_H
#define GG_BACKEND_H

#include "op.h"

#define GG_BACKEND_ABI 6

/* One node, or a run of nodes that one kernel covers, prepared for one set of shapes. */
typedef struct gg_call {
	gg_diag *d;
	const gg_node *node;         /* the first node covered */
	const gg_node *const *cover; /* all of them, in order; cover[0] == node */
	int ncover;
	/* Inputs: the slots of the first node, dtype none where absent; then what the later nodes read
	 * from outside, each value once. Outputs: one node's slots; of a longer run what lives on. */
	int nin, nout;
	gg_value *const *in_value, *const *out_value; /* which values in[] and out[] are */
	gg_tensor *in, *out; /* shapes at prepare; data too at run. Constants: data at prepare */
	const uint8_t *in_layout, *out_layout; /* gg_layout */
	const bool *in_const;                  /* contents never change: reorder once, at prepare */
	bool check; /* somebody looks for NaN in what comes out: none may be lost */
	uint64_t seed;
	const uint64_t
	    *seed_at;     /* devices: where an op that draws finds the seed of a run, in their memory */
	size_t workspace; /* set by prepare: bytes wanted at run */
	void *scratch;    /* that many bytes, 64-aligned */
	/* Devices: bit i set by prepare: it took what it needs of the constant input i, which is then not
	 * uploaded, and in[i].data is NULL at run. */
	uint64_t taken;
	void *state; /* the kernel's own */
} gg_call;

typedef struct gg_kernel {
	const char *name;
	bool (*prepare)(gg_call *c); /* may be NULL */
	bool (*run)(gg_call *c);
	void (*release)(gg_call *c); /* may be NULL */
} gg_kernel;

/* Bytes of a device's memory. */
typedef struct gg_room {
	size_t own, peak;   /* what `alloc` has given out, now and at most */
	size_t context;     /* in use when the device had been opened, by others too */
	size_t used, total; /* in use now, of how much */
} gg_room;

/* What a backend has whose kernels work in a memory of its own. Then `run` only puts work into one
 * queue, in[] and out[] and scratch lie in that memory, and what a kernel did not ask for at
 * prepare it may not make at run: the queue is recorded once and replayed. */
typedef struct gg_device {
	bool (*start)(gg_diag *d); /* before anything else here, when a plan's things have been given */
	void *(*alloc)(gg_diag *d, size_t bytes, const char *what); /* 256-aligned; NULL: reported */
	void (*release)(void *p);
	bool (*upload)(gg_diag *d, void *to, const void *host, size_t bytes); /* host may change afterwards */
	bool (*download)(gg_diag *d, void *host, const void *from, size_t bytes); /* it is there afterwards */
	bool (*copy)(gg_diag *d, void *to, const void *from, size_t bytes);
	bool (*fill)(gg_diag *d, void *to, int byte, size_t bytes);
	bool (*sync)(gg_diag *d); /* waits for the queue; reports what went wrong in it */
	bool (*record)(gg_diag *d);
	void *(*recorded)(gg_diag *d); /* what was put into the queue since `record`; NULL: reported */
	bool (*replay)(gg_diag *d, void *recorded);
	void (*forget)(void *recorded);
	/* Streams beside the queue, which is stream 0; NULL: there are none. What follows goes into the one
	 * that is in use; events are numbered by who uses them. */
	bool (*use)(gg_diag *d, int stream);
	bool (*signal)(gg_diag *d, size_t event);
	bool (*wait)(gg_diag *d, size_t event);
	bool (*mark)(gg_diag *d, size_t i); /* mark i at the end of what is in the queue now */
	bool (*marked)(gg_diag *d, size_t n, double *seconds); /* since mark 0, after `sync` */
	void (*usage)(gg_room *r);
	int (*arch)(void); /* 90: sm_90 */
} gg_device;

/* What goes into a plan: a generated kernel with its source, an engine of a library, or what was chosen, as
 * text, where nothing was to be compiled. */
typedef struct gg_built {
	const char *kind; /* "cubin", "engine", "libraries", "choices" */
	const char *name, *source;
	const void *bytes;
	size_t n;
} gg_built;

/* What the backend of a device can do where there is none: kernels are prepared, and what they have
 * compiled is kept; nothing runs. */
typedef struct gg_offline {
	bool (*open)(gg_diag *d, int arch, int processors); /* in place of gg_backend's */
	const gg_built *(*built)(size_t *n);
	/* From a plan; the bytes stay, and so does d. False: that is no such thing. */
	bool (*give)(gg_diag *d, const char *kind, const char *name, const void *bytes, size_t n);
	/* How many things are left to the load, of kind i, whose name is set; NULL: no such kind. They are
	 * still to be chosen, or `compiled` only. */
	size_t (*deferred)(size_t i, const char **what, bool *compiled);
	/* "tune", "6": how many algorithms are measured; "deterministic": none that adds in another order
	 * each time; "device": the text that describes it, which stays. */
	void (*want)(const char *what, const char *value);
} gg_offline;

typedef struct gg_backend {
	uint32_t abi;
	uint32_t size; /* of this struct */
	const char *name;
	/* Once, before anything else: what is there is known then, and no time was spent on more. */
	bool (*open)(gg_diag *d, int threads);
	const char *(*version)(void);
	const gg_kernel *const *kernels;
	int nkernels;
	/* How many nodes from n on (in execution order, by n->next) one call should cover, at least 1;
	 * they must all have this backend's kernels. May be NULL. */
	int (*cover)(const gg_node *n);
	bool (*convert)(const gg_tensor *src, gg_layout from, gg_tensor *dst, gg_layout to); /* layouts */
	const gg_device *device; /* NULL: the host's memory is where kernels work */
	const gg_offline *offline;
	int (*arch)(void); /* of the device at hand: 90 is sm_90 */
	/* The same in full, as a file of --target=NAME:FILE; free it. NULL: there is no device. */
	char *(*describe)(void);
} gg_backend;

typedef const gg_backend *gg_backend_query_fn(uint32_t abi); /* exported as "gg_backend_query" */

/* Loads lib/gg-NAME.so beside the tool; NULL: reported, GG_MACHINE. Loaded once. */
const gg_backend *gg_backend_load(gg_diag *d, const char *name, int threads);
/* For a kind of device that need not be there; arch 90 is sm_90. A process has a backend one way only. */
const gg_backend *gg_backend_load_offline(gg_diag *d, const char *name, int arch, int processors);
const gg_kernel *gg_backend_kernel(const gg_backend *b, const char *name);
int gg_threads(void); /* GG_NUM_THREADS, else the CPUs this process may run on */

#endif
