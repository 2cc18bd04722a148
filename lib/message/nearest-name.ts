/** The known name that a misspelt or snake_case one most likely means, or null. */
export function nearestName(name: string, known: readonly string[]): string | null {
  const wanted = plain(name);
  let best: string | null = null;
  let bestDistance = Math.min(3, Math.ceil(wanted.length / 3)) + 1;
  for (const candidate of known) {
    const distance = editDistance(wanted, plain(candidate));
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

const MAX_COMPARED = 40;

function plain(name: string): string {
  return name.slice(0, MAX_COMPARED).replaceAll(/[_-]/g, '').toLowerCase();
}

/** Levenshtein's distance, row by row. */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 0; row < a.length; row++) {
    const current = [row + 1];
    for (let column = 0; column < b.length; column++) {
      const replaced = (previous[column] ?? 0) + (a[row] === b[column] ? 0 : 1);
      current.push(Math.min(replaced, (previous[column + 1] ?? 0) + 1, (current[column] ?? 0) + 1));
    }
    previous = current;
  }
  return previous.at(-1) ?? 0;
}
