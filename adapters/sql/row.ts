/** One row that a database answered with, by the names of its columns. */
export type Row = Readonly<Record<string, unknown>>
