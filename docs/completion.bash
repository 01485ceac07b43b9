# bash completion for the gg tools: options as the tool's --help lists them, values where it names
# them, else files. Install once for each tool.
_gg() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} tool=${COMP_WORDS[0]}
	[[ $cur == = ]] && cur=
	[[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD - 2]}
	case $prev in
	--pass | --skip | --explain | --print-before | --print-after)
		COMPREPLY=($(compgen -W "$("$tool" --list 2>/dev/null | cut -d' ' -f1)" -- "$cur")) ;;
	--pipeline)
		COMPREPLY=($(compgen -W "$("$tool" --list 2>/dev/null | grep -o '[a-z_]*:[0-9]' | cut -d: -f1 | sort -u)" -- "$cur")) ;;
	--target) COMPREPLY=($(compgen -W 'ref cpu cuda' -- "$cur")) ;;
	--format)
		case $tool in
		*gg-parse) COMPREPLY=($(compgen -W 'onnx text json' -- "$cur")) ;;
		*) COMPREPLY=($(compgen -W 'text json dot csv onnx' -- "$cur")) ;;
		esac ;;
	--precision) COMPREPLY=($(compgen -W 'strict tf32 f16 bf16' -- "$cur")) ;;
	--layout) COMPREPLY=($(compgen -W 'keep auto nchw nhwc' -- "$cur")) ;;
	--color) COMPREPLY=($(compgen -W 'auto always never' -- "$cur")) ;;
	--fill) COMPREPLY=($(compgen -W 'normal ones zeros range' -- "$cur")) ;;
	*)
		if [[ $cur == -* ]]; then
			COMPREPLY=($(compgen -W "$("$tool" --help 2>/dev/null | sed -n '/^options:/,/^$/s/^  \(-.,\|   \) \(--[a-z-]*\).*/\2/p')" -- "$cur"))
		else
			COMPREPLY=($(compgen -f -- "$cur"))
		fi ;;
	esac
}
complete -F _gg -o filenames gg-parse gg-opt gg-select gg-build gg-run gg-dump
