import { isConfigError } from '../../core/config/configError.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import { visibleBlock, visibleJson, visibleText } from '../../core/text/visibleText.ts'
import { exitCodeOf } from './exitCodes.ts'
import { type Progress, silentProgress, startProgress } from './progress.ts'
import { columnsOf, type Stream } from './stream.ts'
import { type Styles, stylesFor } from './style.ts'
import { type Column, formatTable } from './table.ts'

/**
 * How a command speaks: to a person on a terminal, in tables and sentences; to a program (a pipe, or `--json`), in one
 * JSON object a line on stdout. Everything from outside is made safe for a terminal on the way.
 */
export interface Output {
  readonly isJson: boolean
  /** Colours for texts of the command's own; they do nothing where there are no colours. */
  readonly styles: Styles
  /** Many things of a kind: a table, or one object a line. `whenEmpty` is said to a person when there are none. */
  rows<T extends object>(rows: readonly T[], columns: readonly Column<T>[], whenEmpty?: string): void
  /** One result: the text for a person, or the object. */
  result(value: object, text: string): void
  /** A sentence for a person only. */
  say(text: string): void
  /** A sentence on stderr, in every mode. */
  warn(text: string): void
  /** Says what is going on, on stderr and only on a terminal. */
  progress(text: string): Progress
  /**
   * Tells an error: words on stderr, and `{"error":{…}}` on stdout for a program.
   * @returns the exit code, to be put into `process.exitCode`.
   */
  fail(error: unknown): number
}

export interface OutputOptions {
  readonly stdout: Stream
  readonly stderr: Stream
  /** `--json`: JSON on a terminal too. */
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

/** The output of a command that takes {@link jsonOption}. */
export const outputOf = (flags: { readonly json?: true }): Output =>
  createOutput({ stdout: process.stdout, stderr: process.stderr, env: process.env, json: flags.json })

export const jsonOption = ['--json', 'one JSON object a line, also on a terminal'] as const

function describe(error: unknown): object {
  if (isConfigError(error)) {
    // The message is the same problems once more, drawn for a person.
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
