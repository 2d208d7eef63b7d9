# Counts the words of a letter with the programs of the image.
. /etc/os-release
echo "$(wc -w <"$PL_INPUT_LETTERS") words, counted by $PRETTY_NAME" >"$PL_OUT/count.txt"
