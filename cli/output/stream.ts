/** What the output needs of `process.stdout` and `process.stderr`. */
export interface Stream {
  write(text: string): unknown
  readonly isTTY?: boolean | undefined
  /** Width of the terminal; Node has it only on a terminal. */
  readonly columns?: number | undefined
}

/** Of a pipe, and of a terminal that says 0, as one in a container does. */
const DEFAULT_COLUMNS = 80

/** How many columns a text for a person has there. */
export const columnsOf = ({ columns }: Pick<Stream, 'columns'>): number => columns || DEFAULT_COLUMNS
