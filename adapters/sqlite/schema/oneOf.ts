/** A check of a column's values. SQLite would build a table for an IN with many values each time a statement runs. */
export const oneOf = (column: string, values: readonly string[]): string =>
  values.map((value) => `${column} = '${value}'`).join(' OR ')
