# SPDX-License-Identifier: GPL-2.0
# bash completion for shingle(8)
_shingle()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}

	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		mapfile -t COMPREPLY < <(compgen -W "$(shingle --help |
			sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p') --help --version" -- "$cur")
		return
	fi
	case $prev in
	--cache-location)
		mapfile -t COMPREPLY < <(compgen -W "id od" -- "$cur")
		return ;;
	--geometry)
		mapfile -t COMPREPLY < <(compgen -W "auto pack none" -f -- "$cur")
		return ;;
	--preset)
		mapfile -t COMPREPLY < <(compgen -W "$(shingle presets --json |
			sed -n 's/^ *"name": "\(.*\)",$/\1/p')" -- "$cur")
		return ;;
	esac
	if [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(shingle "$command" --help |
			grep -o -- '^  --[a-z-]*') --help" -- "$cur")
	elif [[ $command == status || $command == stats || $command == remove || $command == reset ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(shingle status --json 2>/dev/null |
			sed -n 's/^ *"name": "\(.*\)",$/\1/p')" -- "$cur")
	elif [[ $command == create || $command == format ]] && ((COMP_CWORD == 2)); then
		mapfile -t COMPREPLY < <(compgen -W "imr stl-full stl-set" -- "$cur")
	else
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
	fi
}
complete -o filenames -F _shingle shingle
