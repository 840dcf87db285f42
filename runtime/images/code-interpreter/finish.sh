# Run in the tree of the image when its Python packages are there.
ln -sf python3 /usr/bin/python
# matplotlib looks for fonts once, for a second, and remembers what it found.
python3 -c 'import matplotlib.pyplot'
