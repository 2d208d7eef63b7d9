# Counts the words of a text with the programs of the image.
. /etc/os-release
echo "$(wc -w <"$PL_INPUT_TEXTS") words, counted by $PRETTY_NAME" >"$PL_OUT/count.txt"
