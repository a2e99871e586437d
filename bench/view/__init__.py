"""The runs of a folder as pages: a list, each run and its episodes, and comparisons.

Pages need no script. Files of runs may be hostile: a run is found by its name in the list and never
by a path of a request, sizes are bounded, links are not followed, and no text becomes markup.
"""
