import { isConfigError } from '../../core/config/check/problem.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import { visibleBlock, visibleJson, visibleText } from '../../core/text/visibleText.ts'
import { exitCodeOf } from './exitCodes.ts'
import { type Progress, silentProgress, startProgress } from './progress.ts'
import { columnsOf, type Stream, type Styles, stylesFor } from './style.ts'
import { type Column, formatTable } from './table.ts'

/**
 * The output of a command. A person on a terminal gets tables and sentences. A program (a pipe, or `--json`) gets one JSON
 * object per line on stdout. Control characters in external text are escaped for a terminal.
 */
export interface Output {
  readonly isJson: boolean
  /** Colors for the command's own texts. They have no effect where colors are off. */
  readonly styles: Styles
  /**
   * Prints a list as a table, or as one object per line. `whenEmpty` is printed for a person if the list is
   * empty.
   */
  rows<T extends object>(rows: readonly T[], columns: readonly Column<T>[], whenEmpty?: string): void
  /** Prints one result, which is the text for a person or the object for a program. */
  result(value: object, text: string): void
  /** Prints a sentence for a person only. */
  say(text: string): void
  /** Prints a sentence on stderr, in every mode. */
  warn(text: string): void
  /** Shows what is in progress, on stderr and only on a terminal. */
  progress(text: string): Progress
  /**
   * Reports an error, as text on stderr and, for a program, as `{"error":{…}}` on stdout.
   * @returns the exit code for `process.exitCode`
   */
  fail(error: unknown): number
}

export interface OutputOptions {
  readonly stdout: Stream
  readonly stderr: Stream
  /** `--json`: JSON even on a terminal. */
  readonly json?: boolean | undefined
  readonly env?: Readonly<Record<string, string | undefined>>
}

/**
 * @example
 * const output = createOutput({ stdout: process.stdout, stderr: process.stderr, json: flags.json, env: process.env })
 * output.rows(links, [{ title: 'Link', value: (link) => link.slug }], 'No links yet.')
 */
export function createOutput({ stdout, stderr, json = false, env = {} }: OutputOptions): Output {
  const isJson = json || stdout.isTTY !== true
  const styles = stylesFor(!isJson, env)
  const errorStyles = stylesFor(stderr.isTTY === true, env)
  const print = (line: string) => void stdout.write(`${line}\n`)
  const printError = (line: string) => void stderr.write(`${line}\n`)

  return {
    isJson,
    styles,
    rows(rows, columns, whenEmpty) {
      if (isJson) for (const row of rows) print(visibleJson(row))
      else if (rows.length > 0)
        for (const line of formatTable(rows, columns, columnsOf(stdout), styles)) print(line)
      else if (whenEmpty !== undefined) print(visibleBlock(whenEmpty))
    },
    result(value, text) {
      print(isJson ? visibleJson(value) : visibleBlock(text))
    },
    say(text) {
      if (!isJson) print(visibleBlock(text))
    },
    warn(text) {
      printError(`${errorStyles.yellow('warning')}: ${visibleBlock(text)}`)
    },
    progress: (text) => (stderr.isTTY === true ? startProgress(stderr, errorStyles, text) : silentProgress),
    fail(error) {
      if (isJson) print(visibleJson({ error: describe(error) }))
      printError(`${errorStyles.red('error')}: ${visibleBlock(messageOf(error))}`)
      return exitCodeOf(error)
    },
  }
}

/** The output of a command with {@link jsonOption}. */
export const outputOf = (flags: { readonly json?: true }): Output =>
  createOutput({ stdout: process.stdout, stderr: process.stderr, env: process.env, json: flags.json })

export const jsonOption = ['--json', 'print one JSON object per line, even on a terminal'] as const

function describe(error: unknown): object {
  if (isConfigError(error)) {
    // The message also lists the problems, formatted for a person, so only its first line is used.
    return { code: error.code, message: visibleText(error.message.split('\n')[0]!), problems: error.problems }
  }
  const code = (error as { code?: unknown } | null)?.code
  const details = isTollgateError(error) ? error.details : undefined
  return {
    code: typeof code === 'string' ? code : 'FAILED',
    message: messageOf(error),
    ...(details ? { details } : {}),
  }
}

function messageOf(error: unknown): string {
  const { code, address, port } = (error ?? {}) as { code?: unknown; address?: unknown; port?: unknown }
  if (code === 'EADDRINUSE' && port !== undefined)
    return `Another program listens on ${address}:${port}. Stop it, or choose another port.`
  return error instanceof Error ? error.message : String(error)
}
