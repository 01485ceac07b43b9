/* gg-opt: runs passes on a graph. The plan is a list of steps, made from --pass and --pipeline in
 * the order given; each model of the input goes through it. */
#include "bisect.h"
#include "reduce.h"
#include "verify.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define X(NAME) extern const gg_pass gg_pass_##NAME;
#include "passes.inc"
#undef X

static const gg_pass *const builtin[] = {
#define X(NAME) &gg_pass_##NAME,
#include "passes.inc"
#undef X
};

static const char *const pipelines[] = {"common", "inference", "optimize",        "hardware",
                                        "final",  "run_op",    "run_op_hardware", "graph_kernel"};

enum {
	PASS = 1,
	PIPELINE,
	LEVEL,
	SKIP,
	LOAD,
	LIST,
	JSON,
	EXPLAIN,
	PRINT_PIPELINE,
	BEFORE,
	AFTER,
	CHANGED,
	STATS,
	REMARKS,
	TIME,
	LIMIT,
	CHECK,
	VERIFY,
	BISECT,
	REDUCE,
	REPRODUCER,
	REWRITE,
	RULES
};

static const gg_option options[] = {
    {PASS, "pass", 0, "NAMES", "run these passes: a,b or adam:lr=0.01,addn"},
    {PIPELINE, "pipeline", 0, "NAMES", "run these pipelines"},
    {REWRITE, "rewrite", 0, "RULE", "run this rule: 'Relu(Add(a, b)) => AddRelu(a, b)'"},
    {RULES, "rules", 0, "FILE", "run the rules in this file"},
    {LEVEL, 0, 'O', "0", "run nothing"},
    {SKIP, "skip", 0, "NAMES", "leave these passes out"},
    {LOAD, "load", 0, "FILE", "load passes from a plugin"},
    {LIST, "list", 0, 0, "list the passes and their pipelines"},
    {JSON, "json", 0, 0, "with --list: as JSON"},
    {EXPLAIN, "explain", 0, "PASS", "say what a pass does; rules: what their conditions can ask"},
    {PRINT_PIPELINE, "print-pipeline", 0, 0, "print the passes that would run, one a line"},
    {BEFORE, "print-before", 0, "NAMES", "print the graph to stderr before these passes, or all"},
    {AFTER, "print-after", 0, "NAMES", "print the graph to stderr after these passes, or all"},
    {CHANGED, "print-changed", 0, 0, "print to stderr what each pass changed, as a diff"},
    {STATS, "stats", 0, 0, "count what was tried, applied and refused, and why"},
    {REMARKS, "remarks", 0, 0, "tell each near miss"},
    {TIME, "time", 0, 0, "print the processor time of each pass"},
    {LIMIT, "limit", 0, "N", "stop after N single rewrites"},
    {CHECK, "check", 0, "all", "check the whole graph after every pass, changed or not"},
    {VERIFY, "verify", 0, "[N]",
     "run the graph before and after each pass on N made-up inputs (3), and compare"},
    {BISECT, "bisect", 0, "CMD", "find the first rewrite after which CMD fails on the graph, and print it"},
    {REDUCE, "reduce", 0, "CMD", "print the smallest graph on which CMD still fails as it does"},
    {REPRODUCER, "reproducer", 0, "DIR", "when a pass fails, leave its input and command line here"},
    {0},
};

static gg_tool tool = {
    .name = "gg-opt",
    .summary = "run passes on a graph",
    .operands = "[FILE]...",
    .options = options,
    .examples = "  gg-parse model.onnx | gg-opt | gg-run\n"
                "  gg-parse model.onnx | gg-opt --pass=fold_bn,dead_code --stats | gg-dump\n"
                "  gg-parse model.onnx | gg-opt --rewrite='Neg(Neg(x)) => x' --stats | gg-dump\n"
                "  gg-opt --explain=bn_relu\n",
};

static struct {
	const gg_pass **pass;
	size_t npass, cap_pass;
	step *step;
	size_t nstep, cap_step;
	char **skip, **before, **after;
	size_t nskip, nbefore, nafter;
	bool given, list, json, print_pipeline, changed, stats, remarks, time, check_all;
	int64_t left;
	const char *explain, *reproducer, *bisect, *reduce;
	verify *verify;
	const char **plugin; /* absolute paths */
	size_t nplugin, cap_plugin;
	gg_map ops; /* that the model has now */
	gg_arena arena;
} opt = {.left = -1};

/* ---- which passes ----------------------------------------------------------------------- */
static const char *pass_name(size_t i) { return i < opt.npass ? opt.pass[i]->name : 0; }

static const char *pipeline_name(size_t i)
{
	return i < sizeof pipelines / sizeof *pipelines ? pipelines[i] : 0;
}

/* "did you mean 'NAME'? " for the nearest of the names, where one is near. */
static const char *did_you_mean(const char *name, const char *(*known)(size_t))
{
	const char *best = 0, *s;
	int least = gg_word_near(name) + 1, k;
	for (size_t i = 0; (s = known(i)); i++) {
		if ((k = gg_word_distance(name, s)) >= least)
			continue;
		least = k;
		best = s;
	}
	return best ? gg_printf(&opt.arena, "did you mean '%s'? ", best) : "";
}

static const gg_pass *find_pass(const char *name)
{
	for (size_t i = 0; i < opt.npass; i++)
		if (!strcmp(opt.pass[i]->name, name))
			return opt.pass[i];
	gg_usage(&tool, "no pass is named '%s'; %sgg-opt --list shows them", name,
	         did_you_mean(name, pass_name));
}

static bool is_in(char **list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i], name) || !strcmp(list[i], "all"))
			return true;
	return false;
}

/* The pass's place in a pipeline, or -1. */
static int place(const gg_pass *p, const char *pipeline)
{
	size_t n = strlen(pipeline);
	for (const char *s = p->pipeline; s && *s; s = strchr(s, ' '), s = s ? s + 1 : 0)
		if (!strncmp(s, pipeline, n) && s[n] == ':')
			return atoi(s + n + 1);
	return -1;
}

static void check_option(const gg_pass *p, const char *word)
{
	size_t n = strcspn(word, "=");
	for (const char *s = p->options; s; s = strstr(s, "; "), s = s ? s + 2 : 0)
		if (word[n] == '=' && !strncmp(s, word, n) && s[n] == '=')
			return;
	gg_usage(&tool, "pass '%s' has no option '%.*s'%s%s", p->name, (int)n, word,
	         p->options ? "; it has " : "", p->options ? p->options : "");
}

static void add_step(const gg_pass *p, const char **option, size_t noption)
{
	if (is_in(opt.skip, opt.nskip, p->name))
		return;
	GG_PUSH(opt.step, opt.nstep, opt.cap_step, ((step){.pass = p, .option = option, .noption = noption}));
}

static void add_passes(const char *list)
{
	size_t n, nword;
	char **name = gg_split(&opt.arena, list, ',', &n);
	for (size_t i = 0; i < n; i++) {
		char **word = gg_split(&opt.arena, name[i], ':', &nword);
		const gg_pass *p = find_pass(nword ? word[0] : "");
		for (size_t k = 1; k < nword; k++) {
			check_option(p, word[k]);
			for (size_t e = 1; e < k; e++)
				if (!strncmp(word[e], word[k], strcspn(word[k], "=") + 1))
					gg_usage(&tool, "pass '%s': option '%.*s' is given twice", p->name,
					         (int)strcspn(word[k], "="), word[k]);
			char *value = strchr(word[k], '=') + 1;
			if (!*value)
				gg_usage(&tool, "pass '%s': option '%.*s' needs a value, not ''", p->name,
				         (int)strcspn(word[k], "="), word[k]);
			word[k] = gg_printf(&opt.arena, "%.*s%s", (int)(value - word[k]), word[k],
			                    gg_unquote(&opt.arena, value));
		}
		add_step(p, (const char **)word + 1, nword - 1);
	}
}

static void add_pipeline(const char *name)
{
	const char *s = "";
	for (size_t i = 0; (s = pipeline_name(i)) && strcmp(s, name);)
		i++;
	if (!s)
		gg_usage(&tool, "no pipeline is named '%s'; %sgg-opt --list shows them", name,
		         did_you_mean(name, pipeline_name));
	for (int last = -1;;) { /* by place, then by name; few enough to select one by one */
		int next = 1 << 30;
		for (size_t i = 0; i < opt.npass; i++) {
			int k = place(opt.pass[i], name);
			if (k > last && k < next)
				next = k;
		}
		if (next == 1 << 30)
			break;
		for (size_t i = 0; i < opt.npass; i++)
			if (place(opt.pass[i], name) == next)
				add_step(opt.pass[i], 0, 0);
		last = next;
	}
}

static void add_pipelines(const char *list)
{
	size_t n;
	char **name = gg_split(&opt.arena, list, ',', &n);
	for (size_t i = 0; i < n; i++)
		add_pipeline(name[i]);
}

/* Rules that the user gives are a step under the option's name. */
static void add_rules(const char *name, const char *from, const char *text)
{
	gg_rules *rules;
	const gg_pass *p = rules_pass(&tool.d, &opt.arena, name, from, text, &rules);
	if (!p)
		exit(tool.d.status);
	size_t n = opt.nstep;
	add_step(p, 0, 0);
	if (opt.nstep > n)
		opt.step[n].run.rules = rules;
	else
		gg_rules_free(rules);
}

static void add_rules_file(const char *path)
{
	gg_buf b = {0};
	char part[4096];
	FILE *f = fopen(path, "rb");
	if (!f) {
		gg_error(&tool.d, GG_MALFORMED, "cannot read '%s': %s", path, strerror(errno));
		exit(GG_MALFORMED);
	}
	for (size_t n; (n = fread(part, 1, sizeof part, f));) {
		gg_buf_add(&b, part, n);
		if (memchr(part, 0, n)) /* no text, and maybe a device without end */
			break;
	}
	bool good = !ferror(f) && b.p && strlen(b.p) == b.len;
	fclose(f);
	if (!good)
		gg_usage(&tool, "'%s' is no text with rules", path);
	add_rules("rules", path, gg_strdup(&opt.arena, b.p));
	gg_buf_fini(&b);
}

static void load_plugin(const char *path)
{
	const char *file = strchr(path, '/') ? path : gg_printf(&opt.arena, "./%s", path);
	crash_aside(true);
	crash_watch("plugin", path, 0, 0, 0, 0);
	void *so = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	crash_watch(0, 0, 0, 0, 0, 0);
	crash_aside(false);
	opt.check_all = true; /* it may not count what it changes */
	if (!so) {
		gg_error(&tool.d, GG_MACHINE, "cannot load plugin '%s': %s", path, dlerror());
		exit(GG_MACHINE);
	}
	const char *whole = realpath(file, 0);
	GG_PUSH(opt.plugin, opt.nplugin, opt.cap_plugin, whole ? whole : file);
	const int *abi = dlsym(so, "gg_plugin_abi");
	const gg_pass *const *p = dlsym(so, "gg_plugin_passes");
	if (!abi || !p)
		gg_usage(&tool, "'%s' is no gg-opt plugin: it lacks '%s'", path,
		         abi ? "gg_plugin_passes" : "gg_plugin_abi");
	if (*abi != GG_PASS_ABI)
		gg_usage(&tool, "plugin '%s' was built for ABI %d, this gg-opt has ABI %d: build it again",
		         path, *abi, GG_PASS_ABI);
	for (; *p; p++) {
		if (!(*p)->name || !(*p)->help || !(*p)->explain || !(*p)->pipeline)
			gg_usage(&tool, "plugin '%s': pass '%s' lacks its name, help, explain or pipeline",
			         path, (*p)->name ? (*p)->name : "");
		for (size_t i = 0; i < opt.npass; i++)
			if (!strcmp(opt.pass[i]->name, (*p)->name))
				gg_usage(&tool, "plugin '%s': there is a pass '%s' already", path,
				         (*p)->name);
		GG_PUSH(opt.pass, opt.npass, opt.cap_pass, *p);
	}
}

/* ---- what is told ----------------------------------------------------------------------- */
static int say(gg_buf *b)
{
	bool good = gg_emit(&tool, b);
	gg_buf_fini(b);
	return good ? GG_OK : (int)tool.d.status;
}

static int list_passes(void)
{
	gg_buf b = {0};
	if (opt.json)
		gg_buf_str(&b, "[");
	for (size_t i = 0; i < opt.npass; i++) {
		const gg_pass *p = opt.pass[i];
		if (opt.json)
			gg_buf_printf(
			    &b,
			    "%s\n  {\"name\": \"%s\", \"help\": \"%s\", \"pipeline\": \"%s\", \"exact\": %s}",
			    i ? "," : "", p->name, p->help, p->pipeline, p->exact ? "true" : "false");
		else
			gg_buf_printf(&b, "%-24s %s [%s]\n", p->name, p->help,
			              *p->pipeline ? p->pipeline : "in no pipeline");
	}
	gg_buf_str(&b, opt.json ? "\n]\n" : "");
	return say(&b);
}

static int explain(void)
{
	gg_buf b = {0};
	if (!strcmp(opt.explain, "rules")) {
		gg_rules_help(&b);
		return say(&b);
	}
	const gg_pass *p = find_pass(opt.explain);
	gg_buf_printf(&b, "%s: %s\n\n%s\n", p->name, p->help, p->explain);
	rules_explain(&b, p);
	gg_buf_printf(&b, "\npipelines: %s\nresults: %s\n", *p->pipeline ? p->pipeline : "none",
	              p->exact   ? "bit for bit equal"
	              : p->tames ? "equal within rounding, but a NaN may become a number"
	                         : "equal within rounding");
	if (p->options)
		gg_buf_printf(&b, "options: %s\n", p->options);
	return say(&b);
}

static int print_pipeline(void)
{
	gg_buf b = {0};
	for (size_t i = 0; i < opt.nstep; i++) {
		gg_buf_str(&b, opt.step[i].pass->name);
		for (size_t k = 0; k < opt.step[i].noption; k++)
			gg_buf_printf(&b, ":%s", opt.step[i].option[k]);
		gg_buf_str(&b, "\n");
	}
	if (!b.p)
		gg_buf_str(&b, "");
	return say(&b);
}

static void print_graph(gg_model *m, const char *when, const char *pass)
{
	gg_buf b = {0};
	gg_buf_printf(&b, "# %s %s\n", when, pass);
	put_text(&b, m);
	fwrite(b.p, 1, b.len, stderr);
	gg_buf_fini(&b);
}

static void print_changes(const char *pass, const gg_buf *before, gg_model *m)
{
	gg_buf now = {0}, diff = {0};
	put_text(&now, m);
	if (gg_diff_text(&diff, before->p, now.p, tool.color))
		fprintf(stderr, "# %s\n%s", pass, diff.p);
	gg_buf_fini(&now);
	gg_buf_fini(&diff);
}

static void print_stats(void)
{
	for (size_t i = 0; i < opt.nstep; i++) {
		const gg_pass_run *r = &opt.step[i].run;
		if (opt.stats) {
			fprintf(stderr, "%-18s tried %zu, applied %zu, refused %zu\n", opt.step[i].pass->name,
			        r->tried, r->applied, r->tried - r->applied);
			gg_buf b = {0};
			if (r->rules)
				rules_stats(&b, r->rules);
			fputs(b.p ? b.p : "", stderr);
			gg_buf_fini(&b);
			for (size_t k = 0; k < r->nrefusal; k++)
				fprintf(stderr, "%18s %zu: %s\n", "", r->refusal[k].n, r->refusal[k].why);
		}
		if (opt.time)
			fprintf(stderr, "%-18s %9.3f ms\n", opt.step[i].pass->name, opt.step[i].ms);
	}
}

/* ---- running ------------------------------------------------------------------------------ */
/* How to run the step again on its input, from a script beside it. */
static void command_of(const step *s, gg_buf *b)
{
	const char *name = s->pass->name;
	gg_buf_str(b, "#!/bin/sh\ncd \"$(dirname \"$0\")\" && gg-opt --check=all ");
	if (opt.verify)
		gg_buf_printf(b, "--verify=%zu ", verify_samples(opt.verify));
	if (!strcmp(name, "rewrite") || !strcmp(name, "rules")) {
		gg_buf_printf(b, "--rules=/dev/stdin %s.gg <<'END'\n%s\nEND\n", name, s->pass->rules);
		return;
	}
	for (size_t i = 0; i < opt.nplugin; i++)
		gg_buf_printf(b, "'--load=%s' ", opt.plugin[i]);
	gg_buf_printf(b, "'--pass=%s", name);
	for (size_t k = 0; k < s->noption; k++)
		gg_buf_printf(b, ":%s", s->option[k]);
	gg_buf_printf(b, "' %s.gg\n", name);
}

/* The pass's input as text and the command that fails, in the folder given. */
static void leave_reproducer(const step *s, const gg_buf *input, const gg_buf *command)
{
	char *text = gg_printf(&opt.arena, "%s/%s.gg", opt.reproducer, s->pass->name);
	char *script = gg_printf(&opt.arena, "%s/%s.sh", opt.reproducer, s->pass->name);
	if (gg_write_file(&tool.d, text, input->p, input->len) &&
	    gg_write_file(&tool.d, script, command->p, command->len))
		gg_note(&tool.d, "wrote '%s' and '%s'", text, script);
}

/* A pass that changes the interface says so: what follows is compared with its graph. */
static bool verify_step(step *s, gg_model *m, size_t before)
{
	if (!opt.verify || s->run.applied == before)
		return true;
	if (!s->pass->interface)
		return verify_pass(opt.verify, &tool.d, s, m);
	gg_note(&tool.d, "--verify: pass '%s' changes what the graph computes: not compared", s->pass->name);
	return verify_start(opt.verify, &tool.d, m);
}

static bool run_step(step *s, gg_model *m)
{
	const char *name = s->pass->name;
	size_t applied = s->run.applied;
	gg_buf before = {0}, command = {0};
	if (is_in(opt.before, opt.nbefore, name))
		print_graph(m, "before", name);
	if (opt.changed || opt.reproducer)
		put_text(&before, m);
	if (opt.reproducer) {
		command_of(s, &command);
		if (mkdir(opt.reproducer, 0777) && errno != EEXIST)
			return gg_error(&tool.d, GG_MACHINE, "cannot make the folder '%s': %s",
			                opt.reproducer, strerror(errno));
	}
	crash_watch("pass", name, &s->run, opt.reproducer, &before, &command);
	s->run.remarks = opt.remarks;
	bool good = step_run(s, &tool.d, m, &opt.ops, &opt.left, opt.check_all);
	crash_watch(0, 0, 0, 0, 0, 0);
	good = good && verify_step(s, m, applied);
	if (!good && opt.reproducer)
		leave_reproducer(s, &before, &command);
	if (good && opt.changed)
		print_changes(name, &before, m);
	if (good && is_in(opt.after, opt.nafter, name))
		print_graph(m, "after", name);
	gg_buf_fini(&before);
	gg_buf_fini(&command);
	return good;
}

static bool optimise(gg_tool *t, gg_model *m, void *arg)
{
	if (opt.nstep)
		step_find_ops(m, &opt.ops);
	if (opt.verify && !verify_start(opt.verify, &tool.d, m))
		return false;
	for (size_t i = 0; i < opt.nstep; i++)
		if (!run_step(&opt.step[i], m))
			return false;
	if (opt.nstep && !m->target)
		m->stage = "opt";
	return true;
}

static void start_verify(const char *value)
{
	int64_t n = 3;
	if (value && (!gg_parse_int(value, &n) || n < 1 || n > 10000))
		gg_usage(&tool, "--verify=%s is not a count from 1 to 10000", value);
	verify_free(opt.verify);
	opt.verify = verify_new(n);
}

static void take_option(int id, const char *value)
{
	switch (id) {
	case SKIP:
		opt.skip = gg_split(&opt.arena, value, ',', &opt.nskip);
		break;
	case LOAD:
		load_plugin(value);
		break;
	case LIST:
		opt.list = true;
		break;
	case JSON:
		opt.json = true;
		break;
	case EXPLAIN:
		opt.explain = value;
		break;
	case PRINT_PIPELINE:
		opt.print_pipeline = true;
		break;
	case BEFORE:
		opt.before = gg_split(&opt.arena, value, ',', &opt.nbefore);
		break;
	case AFTER:
		opt.after = gg_split(&opt.arena, value, ',', &opt.nafter);
		break;
	case CHANGED:
		opt.changed = true;
		break;
	case STATS:
		opt.stats = true;
		break;
	case REMARKS:
		opt.remarks = true;
		break;
	case TIME:
		opt.time = true;
		break;
	case REPRODUCER:
		opt.reproducer = value;
		break;
	case LIMIT:
		if (!gg_parse_int(value, &opt.left) || opt.left < 0)
			gg_usage(&tool, "--limit=%s is not a count", value);
		break;
	case VERIFY:
		start_verify(value);
		break;
	case BISECT:
		opt.bisect = value;
		break;
	case REDUCE:
		opt.reduce = value;
		break;
	case CHECK:
		if (strcmp(value, "all"))
			gg_usage(&tool, "--check=%s: only 'all' is known", value);
		opt.check_all = true;
		break;
	}
}

static void check_names(char *const *name, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(name[i], "all"))
			find_pass(name[i]);
}

static void add_steps(int id, const char *value)
{
	if (id == PASS)
		add_passes(value);
	else if (id == PIPELINE)
		add_pipelines(value);
	else if (id == REWRITE)
		add_rules("rewrite", "--rewrite", value);
	else if (id == RULES)
		add_rules_file(value);
}

/* --skip and --load count for passes named before them too, so names are looked up at the end. */
static void read_options(int argc, char **argv)
{
	struct {
		int id;
		const char *value;
	} *what = 0;
	size_t n = 0, cap = 0;
	gg_args_start(&tool, argc, argv);
	for (int id; (id = gg_args_next(&tool));) {
		if (id == LEVEL && strcmp(tool.value, "0"))
			gg_usage(&tool, "-O%s: only -O0 is known", tool.value);
		if (id == PASS || id == PIPELINE || id == LEVEL || id == REWRITE || id == RULES) {
			what = gg_grow(what, n, &cap, sizeof *what);
			what[n].id = id;
			what[n++].value = tool.value;
		} else {
			take_option(id, tool.value);
		}
	}
	for (size_t i = 0; i < opt.nskip; i++)
		find_pass(opt.skip[i]);
	check_names(opt.before, opt.nbefore);
	check_names(opt.after, opt.nafter);
	if (opt.reduce && n)
		gg_usage(&tool, "--reduce runs no passes: name them in its command");
	if ((opt.reduce || opt.bisect) && (opt.verify || tool.nfile > 1 || (opt.reduce && opt.bisect)))
		gg_usage(&tool, "--bisect, --reduce and --verify go one by one, the first two with one file");
	if (opt.json && !opt.list)
		gg_usage(&tool, "--json goes with --list");
	for (size_t i = 0; i < n; i++)
		add_steps(what[i].id, what[i].value);
	if (!n)
		add_pipelines("common,inference,optimize");
	free(what);
}

/* --bisect and --reduce: text about one graph, or nothing. */
static int search(void)
{
	gg_buf b = {0};
	gg_model *m = gg_read_one(&tool, tool.file[0]);
	tool.d.where = tool.file[0];
	bool good = m && (opt.reduce ? reduce(&tool.d, m, opt.reduce, &b)
	                             : bisect(&tool.d, m, opt.step, opt.nstep, opt.left, opt.bisect,
	                                      tool.color_out, &b));
	tool.d.where = 0;
	gg_model_free(m);
	if (good)
		return say(&b);
	gg_buf_fini(&b);
	return (int)tool.d.status;
}

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof builtin / sizeof *builtin; i++)
		GG_PUSH(opt.pass, opt.npass, opt.cap_pass, builtin[i]);
	read_options(argc, argv);
	if (opt.explain)
		return explain();
	if (opt.list)
		return list_passes();
	if (opt.print_pipeline)
		return print_pipeline();
	int status = opt.bisect || opt.reduce ? search() : gg_each_model(&tool, optimise, 0, true);
	print_stats();
	for (size_t i = 0; i < opt.nstep; i++)
		gg_rules_free(opt.step[i].run.rules);
	verify_free(opt.verify);
	return status;
}
