/** What the output needs of `process.stdout` and `process.stderr`. */
export interface Stream {
  write(text: string): unknown
  readonly isTTY?: boolean | undefined
  /** Width of the terminal; Node has it only on a terminal. */
  readonly columns?: number | undefined
}
