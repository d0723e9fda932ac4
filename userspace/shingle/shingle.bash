# SPDX-License-Identifier: GPL-2.0
# bash completion for shingle(8)

# _shingle_options WHAT [TARGET [KEY]]: print the features or the keys of TARGET, or of all
# translation layers, the values of KEY, or the targets.
_shingle_options()
{
	shingle create --help | awk -v what="$1" -v target="$2" -v key="$3" '
		/^Keys of every translation layer/ { at = "every"; next }
		/^Features and keys of / { at = $5; sub(/:$/, "", at)
			if (what == "targets") print at
			next }
		at == "" || !/^  [a-z]/ { next }
		target != "" && at != "every" && at != target { next }
		target == "" && at == "platter" { next }
		{ n = split($1, part, /[=|]/) }
		what == "features" && n == 1 { print part[1] }
		what == "keys" && n > 1 { print part[1] "=" }
		what == "values" && part[1] == key && part[2] != "N" {
			for (i = 2; i <= n; i++) print part[i] }' | sort -u
}

# Quote words from outside: compgen -W would expand what looks like a command.
_shingle_as_they_are()
{
	sed 's/[^[:alnum:]]/\\&/g'
}

# Names of open devices.
_shingle_names()
{
	shingle list --json 2>/dev/null | sed -n 's/^ *"name": "\(.*\)",$/\1/p' |
		_shingle_as_they_are
}

# Names of the devices in shingletab.
_shingle_tab()
{
	awk '!/^[ \t]*#/ && NF { print $1 }' "${SHINGLETAB:-/etc/shingletab}" 2>/dev/null |
		_shingle_as_they_are
}

_shingle()
{
	local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} at=$COMP_CWORD
	local option word target='' before=''

	COMPREPLY=()
	if ((COMP_CWORD == 1)) || [[ $COMP_CWORD == 2 && $command == help ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(shingle --help |
			sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p') \
			$([[ $command == help ]] || echo --help --version help)" -- "$cur")
		return
	fi
	# bash may split --set KEY=VALUE into four words: the option, the key, = and the value.
	if [[ $cur == = ]]; then
		cur="${COMP_WORDS[at - 1]}="
		((at -= 1))
	elif [[ ${COMP_WORDS[at - 1]} == = ]]; then
		cur="${COMP_WORDS[at - 2]}=$cur"
		((at -= 2))
	fi
	option=${COMP_WORDS[at - 1]}
	[[ $option == = ]] && option=${COMP_WORDS[at - 2]}
	if [[ $cur == --*=* ]]; then
		option=${cur%%=*}
		[[ $COMP_WORDBREAKS == *=* ]] || before="$option="
		cur=${cur#*=}
	fi
	for word in $(_shingle_options targets); do
		[[ " ${COMP_WORDS[*]} " == *" $word "* ]] && target=$word
	done

	# Keys are words of their own in the command set.
	[[ $command == set && $cur != -* && $option != --* ]] && ((at > 2)) && option=--set
	case $option in
	--default)
		mapfile -t COMPREPLY < <(compgen -W "$(_shingle_options keys "$target" |
			tr -d =)" -- "$cur")
		return ;;
	--set)
		if [[ $cur == *=* ]]; then
			[[ $COMP_WORDBREAKS == *=* ]] || before+="${cur%%=*}="
			mapfile -t COMPREPLY < <(compgen -P "$before" -W "$(_shingle_options values \
				"$target" "${cur%%=*}")" -- "${cur#*=}")
			return
		fi
		compopt -o nospace 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -P "$before" -W "$(_shingle_options keys \
			"$target")" -- "$cur")
		return ;;
	--feature | --no-feature)
		mapfile -t COMPREPLY < <(compgen -P "$before" -W "$(_shingle_options features \
			"$target")" -- "$cur")
		return ;;
	--cache-location)
		mapfile -t COMPREPLY < <(compgen -P "$before" -W "id od" -- "$cur")
		return ;;
	--geometry)
		mapfile -t COMPREPLY < <(compgen -P "$before" -W "auto pack none" -f -- "$cur")
		return ;;
	--profile)
		mapfile -t COMPREPLY < <(compgen -P "$before" -W "$(shingle create platter --help |
			sed -n '/^Profiles:/,/^Features/s/^  \([a-z0-9]*\) .*/\1/p')" -- "$cur")
		return ;;
	--preset)
		mapfile -t COMPREPLY < <(compgen -P "$before" -W "$(shingle presets --json |
			sed -n 's/^ *"name": "\(.*\)",$/\1/p')" -- "$cur")
		return ;;
	--cache | --meta)
		mapfile -t COMPREPLY < <(compgen -P "$before" -f -- "$cur")
		return ;;
	--*)
		# Any other option with a value takes a number, a size or a text.
		shingle "$command" --help | grep -q -e "^  $option  *[A-Z]" && return ;;
	esac
	if [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(shingle "$command" $target --help |
			grep -o -- '^  --[a-z-]*') --help" -- "$cur")
	elif [[ " ${COMP_WORDS[*]} " == *" --tab "* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_shingle_tab)" -- "$cur")
	elif [[ $command == status || $command == stats || $command == set || $command == remove || $command == reset ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_shingle_names)" -- "$cur")
	elif [[ $command == presets ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(shingle presets --json |
			sed -n 's/^ *"name": "\(.*\)",$/\1/p')" -- "$cur")
	elif [[ $command == create || $command == format ]] && ((COMP_CWORD == 2)); then
		mapfile -t COMPREPLY < <(compgen -W "$(_shingle_options targets)" -- "$cur")
	else
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
	fi
}
complete -o filenames -F _shingle shingle
