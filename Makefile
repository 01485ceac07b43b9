# gg: build, test, install.   make deps · make · make demo · make check · make san · make bench
#
# Lists come from the folders: a new file in lib/op or tools/gg-opt/pass is found, compiled and
# registered without touching anything else.

# make V=1 shows whole command lines.
Q       := $(if $(V),,@)
say      = @$(if $(V),:,printf '  %-4s %s\n' $(1) $(2))
B       ?= build
CC      ?= cc
PREFIX  ?= /usr/local
VERSION := 0.1.0

WARN    := -Wall -Wextra -Werror -Wno-missing-field-initializers -Wno-unused-parameter
OPT     ?= -O2 -g
SANFLAGS := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
CFLAGS  += -std=c11 -D_GNU_SOURCE $(WARN) $(OPT) $(if $(SAN),$(SANFLAGS)) -fPIC -I$(B) -Ilib -MMD -MP
LDFLAGS += $(if $(SAN),$(SANFLAGS))
# msgpack-c is linked statically, so that the tools run where only libc is.
LIBS    := -l:libmsgpackc.a -lm -ldl -lpthread

OPS     := $(sort $(wildcard lib/op/*.c))
PASSES  := $(sort $(wildcard tools/gg-opt/pass/*.c))
LIBSRC  := $(sort $(wildcard lib/*.c lib/target/*.c)) $(OPS)
LIBOBJ  := $(LIBSRC:%.c=$(B)/%.o)
CPUSRC  := $(sort $(wildcard lib/cpu/*.c))
CPUOBJ  := $(CPUSRC:%.c=$(B)/%.o)
TOOLS   := $(sort $(patsubst tools/%/main.c,%,$(wildcard tools/gg-*/main.c)))
BIN     := $(TOOLS:%=$(B)/bin/%)
UNIT    := $(patsubst tests/unit/%.c,$(B)/tests/%,$(sort $(wildcard tests/unit/*.c)))
ONNX    := $(B)/onnx.pb

# ---- what is missing, said once ------------------------------------------------------------
need     = $(if $(wildcard $(1)),,$(2))
MISSING := $(call need,/usr/include/msgpack.h,libmsgpack-dev) $(call need,/usr/bin/nanopb_generator*,nanopb) \
           $(call need,/usr/include/pb.h /usr/include/nanopb/pb.h,libnanopb-dev) \
           $(call need,/usr/include/dnnl.h,libdnnl-dev)
NOBUILD := cuda check-cuda deps demo check pairs san clean help format
ifneq ($(strip $(MISSING)),)
ifneq ($(filter-out $(NOBUILD),$(or $(MAKECMDGOALS),all)),)
$(error missing Debian packages: $(strip $(MISSING)) -- run 'make deps' first)
endif
endif

# gg-cuda.so needs headers alone: it opens CUDA's libraries when it runs.
CUDA    ?= /usr/local/cuda
CUDAINC := $(foreach h,cuda.h cublasLt.h nvrtc.h cudnn.h,$(patsubst %/$(h),%,$(firstword $(wildcard \
           $(CUDA)/include/$(h) $(CUDNN)/include/$(h) /usr/include/$(h) /usr/include/x86_64-linux-gnu/$(h)))))
HASCUDA := $(if $(filter 4,$(words $(CUDAINC))),yes)
CUDASRC := $(sort $(wildcard lib/cuda/*.c))
CUDAOBJ := $(CUDASRC:%.c=$(B)/%.o)

.PHONY: all cuda deps demo check install clean san bench help format
.DELETE_ON_ERROR:
all: $(BIN) $(if $(CPUSRC),$(B)/lib/gg-cpu.so) $(if $(HASCUDA),$(B)/lib/gg-cuda.so,nocuda)
.PHONY: nocuda
nocuda:
	$(call say,NOTE,'no headers of CUDA and cuDNN in $(CUDA): gg-cuda.so is not built')
cuda: $(if $(HASCUDA),$(B)/lib/gg-cuda.so,nocuda)

# ---- generated lists: rewritten only when the folder changed ---------------------------------
list = $(foreach f,$(1),X($(basename $(notdir $(f)))))
define lists
$(shell mkdir -p $(B); for p in "ops $(call list,$(OPS))" "passes $(call list,$(PASSES))"; do \
	set -- $$p; f=$(B)/$$1.inc; shift; printf '%s\n' "$$@" >$$f.new; \
	if cmp -s $$f.new $$f; then rm $$f.new; else mv $$f.new $$f; fi; done)
endef
ifneq ($(filter-out $(NOBUILD),$(or $(MAKECMDGOALS),all)),)
$(lists)
endif
$(B)/lib/op.o: $(B)/ops.inc
$(B)/tools/gg-opt/main.o: $(B)/passes.inc
# The card that `cuda` means where none is described, as a string.
$(B)/h200.inc: lib/target/h200.json
	@mkdir -p $(@D)
	$(Q)sed 's/[\\"]/\\&/g; s/.*/"&"/' $< >$@
$(B)/lib/target/device.o: $(B)/h200.inc

# ---- ONNX decoder: generated next to the objects ---------------------------------------------
NANOPB := $(firstword $(wildcard /usr/bin/nanopb_generator.py /usr/bin/nanopb_generator))
PBINC  := $(addprefix -I,$(wildcard /usr/include/nanopb))
$(ONNX).c $(ONNX).h &: tools/gg-parse/onnx.proto tools/gg-parse/onnx.options
	@mkdir -p $(B)
	$(call say,GEN,$@)
	$(Q)cd tools/gg-parse && $(NANOPB) -q -D $(abspath $(B)) onnx.proto
$(ONNX).o: $(ONNX).c
	$(call say,CC,$@)
	$(Q)$(CC) $(CFLAGS) $(PBINC) -c -o $@ $<
$(B)/tools/gg-parse/%.o: CFLAGS += $(PBINC)
$(patsubst %.c,$(B)/%.o,$(wildcard tools/gg-parse/*.c)): $(ONNX).h

# ---- objects, library, tools ---------------------------------------------------------------------
$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CFLAGS) -DGG_VERSION='"$(VERSION)"' -c -o $@ $<

$(B)/lib/libgg.a: $(LIBOBJ) $(B)/ops.inc
	@mkdir -p $(@D) && rm -f $@
	$(call say,AR,$@)
	$(Q)ar rcs $@ $(LIBOBJ)

toolobj = $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tools/$(1)/*.c tools/$(1)/*/*.c)))
# Plugins and backends resolve libgg's symbols in the tool: all of libgg goes in.
define tool
$(B)/bin/$(1): $(call toolobj,$(1)) $(B)/lib/libgg.a $(if $(filter gg-parse,$(1)),$(ONNX).o)
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(Q)$$(CC) $$(LDFLAGS) -rdynamic -o $$@ $(call toolobj,$(1)) $(if $(filter gg-parse,$(1)),$(ONNX).o) \
	  -Wl,--whole-archive $(B)/lib/libgg.a -Wl,--no-whole-archive $$(LIBS) $(if $(filter gg-parse,$(1)),-lprotobuf-nanopb)
endef
$(foreach t,$(TOOLS),$(eval $(call tool,$(t))))

# -O2 leaves the conversion loops scalar.
$(B)/lib/dtype.o: CFLAGS += -O3
# The vector loops once for each instruction set; the backend picks when it is opened.
ISAS   := base $(if $(filter x86_64,$(shell uname -m)),avx2 avx512)
ISA_avx2 := -march=haswell
ISA_avx512 := -march=skylake-avx512 -mprefer-vector-width=512
CPUOBJ += $(ISAS:%=$(B)/lib/cpu/vec.%.o)
$(ISAS:%=$(B)/lib/cpu/vec.%.o): $(B)/lib/cpu/vec.%.o: lib/cpu/simd/vec.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CFLAGS) -fno-math-errno -fno-trapping-math $(ISA_$*) -DISA=$* -c -o $@ $<
$(B)/lib/cpu/%.o: CFLAGS += -fopenmp -O3
$(B)/lib/gg-cpu.so: $(CPUOBJ)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -shared -fopenmp -o $@ $(CPUOBJ) -ldnnl -lm

$(CUDAOBJ): CFLAGS += $(addprefix -I,$(sort $(CUDAINC)))
$(B)/lib/gg-cuda.so: $(CUDAOBJ)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -shared -o $@ $(CUDAOBJ) -ldl

# A stand-in for CUDA's libraries whose device is the host (tests/fake.sh).
FAKE    := $(if $(HASCUDA),$(B)/tests/fake/libcuda.so.1 $(B)/tests/device)
# In one folder without cuDNN, in another one with it.
$(B)/tests/fake/libcuda.so.1: tests/cuda/fake.c tests/cuda/fake_dnn.c
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(addprefix -I,$(sort $(CUDAINC))) -shared -o $@ $(filter %.c,$^)
	$(Q)for l in libnvrtc.so.13 libcublasLt.so.13; do ln -sf libcuda.so.1 $(@D)/$$l; done
	$(Q)mkdir -p $(@D)/dnn && for l in libcuda.so.1 libnvrtc.so.13 libcublasLt.so.13 libcudnn.so.9; do \
	  ln -sf ../libcuda.so.1 $(@D)/dnn/$$l; done

$(B)/tests/%: tests/unit/%.c $(B)/lib/libgg.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -rdynamic -o $@ $< -Wl,--whole-archive $(B)/lib/libgg.a -Wl,--no-whole-archive $(LIBS)
$(B)/tests/%: tests/kernel/%.c $(B)/lib/libgg.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -rdynamic -o $@ $< -Wl,--whole-archive $(B)/lib/libgg.a -Wl,--no-whole-archive $(LIBS)

# Programs that run passes: gg-opt without its main, and random graphs.
OPTOBJ  := $(filter-out $(B)/tools/gg-opt/main.o,$(call toolobj,gg-opt))
OPTOBJ  += $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tests/random/*.c)))
$(B)/tests/random/random.o: $(B)/passes.inc
PASSTEST := $(patsubst tests/pass/%.c,$(B)/tests/%,$(sort $(wildcard tests/pass/*.c)))
$(PASSTEST): $(B)/tests/%: tests/pass/%.c $(OPTOBJ) $(B)/lib/libgg.a $(B)/passes.inc
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -rdynamic -o $@ $< $(OPTOBJ) \
	  -Wl,--whole-archive $(B)/lib/libgg.a -Wl,--no-whole-archive $(LIBS)

# ---- what users call ----------------------------------------------------------------------------
PACKAGES := build-essential perl
# ^ compiler and make; prove. Then: the stream, the ONNX decoder, gg-cpu.so, tests, the second
#   compiler and the format.
PACKAGES += libmsgpack-dev
PACKAGES += nanopb libnanopb-dev
PACKAGES += libdnnl-dev
PACKAGES += bats jq python3 python3-msgpack python3-numpy
PACKAGES += clang clang-format
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

help:
	@echo 'make          build into build/'
	@echo 'make deps     install what building and testing need, from Debian packages'
	@echo 'make demo     deps, build, run a network against its reference output, train another one'
	@echo 'make check    deps, build, all tests'
	@echo 'make san      the tests again under address and undefined-behaviour sanitizers'
	@echo 'make pairs    every ordered pair of passes on every graph in the tree'
	@echo 'make cuda     the CUDA backend alone: headers of CUDA and cuDNN are all it needs'
	@echo 'make check-cuda  its tests, on a machine with a device'
	@echo 'make bench    ratios against onnxruntime, and the times of the tools'
	@echo 'make install  into PREFIX (/usr/local), DESTDIR is honoured'
	@echo 'make format   clang-format over all sources'

deps:
	@set -- $(PACKAGES); if dpkg -s "$$@" >/dev/null 2>&1; then echo "all packages are there: $$*"; else \
	echo "installing with apt-get: $$*"; $(SUDO) apt-get update -q && \
	DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -q -y --no-install-recommends "$$@"; fi

demo: deps
	$(MAKE) all
	examples/demo.sh $(B)/bin
	BIN=$(B)/bin examples/train.sh

# prove runs whatever prints TAP: C programs, shell scripts, bats files.
TESTS = $(UNIT) $(sort $(wildcard tests/*.sh tests/cli/*.bats))
.PHONY: run-tests
check: deps
	$(MAKE) run-tests
run-tests: all $(UNIT) $(PASSTEST) $(FAKE) $(if $(CPUSRC),$(B)/tests/sweep)
	PATH="$(abspath $(B)/bin):$$PATH" GG_BUILD=$(abspath $(B)) GG_CACHE=$(abspath $(B))/cache prove --timer --failures $(TESTS) $(if $(CPUSRC),$(B)/tests/sweep)

san: deps
	UBSAN_OPTIONS=print_stacktrace=1 $(MAKE) SAN=1 B=build-san OPT='-O1 -g' run-tests

# Every ordered pair of passes on every graph in the tree, and on more random ones: minutes.
.PHONY: pairs
pairs:
	SHARE=100 $(MAKE) run-tests TESTS=tests/passes.sh
	SEED=1000 COUNT=1000 $(MAKE) run-tests TESTS=tests/random.sh

# Mutated inputs by clang's libFuzzer, for the readers or the rules: make fuzz FUZZ=rules SECONDS=600
FUZZ    ?= input
SECONDS ?= 60
FUZZFLAGS := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
.PHONY: fuzz
fuzz:
	$(MAKE) CC=clang B=build-fuzz OPT='-O1 -g $(FUZZFLAGS)' build-fuzz/lib/libgg.a
	clang -std=c11 -D_GNU_SOURCE -g -fsanitize=fuzzer,address,undefined -Ibuild-fuzz -Ilib -o build-fuzz/$(FUZZ) \
	  tests/fuzz/$(FUZZ).c -Wl,--whole-archive build-fuzz/lib/libgg.a -Wl,--no-whole-archive $(LIBS)
	mkdir -p build-fuzz/corpus/$(FUZZ)
	build-fuzz/$(FUZZ) $(addprefix -dict=,$(wildcard tests/fuzz/$(FUZZ).dict)) -max_total_time=$(SECONDS) -max_len=4096 -timeout=10 -artifact_prefix=build-fuzz/ build-fuzz/corpus/$(FUZZ) tests/fuzz/seeds/$(FUZZ)

# On a machine with a device, where `make cuda` is enough: the tools may come from elsewhere.
.PHONY: check-cuda
check-cuda: cuda
	GG_BUILD=$(abspath $(B)) prove --failures tests/cuda.sh

bench: all
	bench/run.sh $(abspath $(B))

SOURCES = $(shell git ls-files '*.c' '*.h')
format:
	clang-format -i $(SOURCES)

# Man pages: the text in docs/man, the options as the tool itself tells them.
MAN := $(TOOLS:%=$(B)/man/%.1)
$(B)/man/%.1: docs/man/%.txt docs/man.sh $(B)/bin/%
	@mkdir -p $(@D)
	docs/man.sh $(B)/bin/$* $< >$@

# What plugins are built against: gg/pass.h and the headers of libgg beside it.
.PHONY: headers
HEADERS := $(filter-out lib/rule_in.h,$(wildcard lib/*.h)) lib/dtype.inc
headers: $(B)/include/gg/pass.h
$(B)/include/gg/pass.h: tools/gg-opt/pass.h $(HEADERS)
	@mkdir -p $(@D)
	@cp $(HEADERS) $(@D)
	@sed 's|"../../lib/gg.h"|"gg.h"|' $< >$@

install: all $(MAN) headers
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/share/man/man1 \
	  $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	install $(BIN) $(DESTDIR)$(PREFIX)/bin
	install -d $(DESTDIR)$(PREFIX)/include/gg
	install -m 644 $(B)/include/gg/* $(DESTDIR)$(PREFIX)/include/gg
	install -m 644 $(wildcard $(B)/lib/gg-*.so) $(DESTDIR)$(PREFIX)/lib
	install -d $(DESTDIR)$(PREFIX)/share/gg
	install -m 644 lib/target/h200.json $(DESTDIR)$(PREFIX)/share/gg
	install -m 644 $(MAN) $(DESTDIR)$(PREFIX)/share/man/man1
	for t in $(TOOLS); do install -m 644 docs/completion.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$t; done

clean:
	rm -rf build build-san build-fuzz

-include $(shell find $(B) -name '*.d' 2>/dev/null)
