import { hostname } from 'node:os'
import { type DestinationStream, type LogFn, type Logger, pino } from 'pino'
import type { Config } from '../../core/config/schema.ts'
import type { Log } from '../../core/ports/log.ts'
import { isDatabaseDown } from '../../core/ports/refusals.ts'
import { visibleJson, visibleLines, visibleText } from '../../core/text/visibleText.ts'
import { version } from '../version.ts'

const colors: Readonly<Record<string, string>> = { warn: '\x1b[33m', error: '\x1b[31m', debug: '\x1b[2m' }

/**
 * Minimum time between two log lines about a database that is down, in ms. It applies because every part that needs the
 * database reports the same failure.
 */
const REPEAT_AFTER_MS = 30_000
/** Maximum number of payments whose repeated lines are suppressed. With more payments, some lines are repeated earlier. */
const MAX_REMEMBERED = 1_000

/**
 * Maximum bytes of the log that wait in memory for the log's reader. Further lines are dropped, so that a slow reader neither
 * delays calls nor fills the memory.
 */
const MAX_UNWRITTEN_BYTES = 8 * 1_048_576

/**
 * The program's log on standard error. It writes lines for people on a terminal, and JSON elsewhere. While the database is
 * down, a line about it is written only once per half a minute, with the number of suppressed lines as `leftOut`.
 *
 * @param now monotonic time in ms
 */
export function createLog(
  { level, format }: Config['log'],
  stream: NodeJS.WriteStream = process.stderr,
  now: () => number = performance.now.bind(performance),
): Log {
  // An error means that the disk is full, or that the log's reader has ended. Calls continue without a log.
  stream.on('error', () => undefined)
  const isPretty = format === 'pretty' || (format === 'auto' && stream.isTTY === true)
  const options = {
    level,
    base: { pid: process.pid, host: hostname(), version: version() },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    hooks: { logMethod: lessOften(now) },
  }
  let dropped = 0
  const write = (line: string) => {
    if (stream.writableLength > MAX_UNWRITTEN_BYTES) dropped++
    else stream.write(line)
  }
  const log = pino(options, isPretty ? prettyStream(stream, write) : jsonStream(write)) as Log
  stream.on('drain', () => {
    if (dropped === 0) return
    log.warn({ dropped }, 'log lines were dropped, because their reader was too slow')
    dropped = 0
  })
  return log
}

function lessOften(now: () => number) {
  const written = new Map<string, { readonly atMs: number; leftOut: number }>()
  return function (this: Logger, args: Parameters<LogFn>, method: LogFn): void {
    const [fields, message] = args as unknown as [{ readonly err?: unknown }, string | undefined]
    const { err, ...others } = fields
    if (!isDatabaseDown(err)) return method.apply(this, args)
    const about = Object.entries(others).map(([name, value]) => `${name}=${String(value)}`)
    const key = [message, ...about].join(' ')
    const before = written.get(key)
    if (before !== undefined && now() - before.atMs < REPEAT_AFTER_MS) {
      before.leftOut++
      return
    }
    if (written.size >= MAX_REMEMBERED) written.clear()
    written.set(key, { atMs: now(), leftOut: 0 })
    const leftOut = before?.leftOut ?? 0
    method.call(this, leftOut > 0 ? { ...fields, leftOut } : fields, message)
  }
}

/**
 * Escapes characters that JSON does not escape (C1 controls, bidirectional marks). The log contains text from nodes, sellers
 * and facilitators, and a terminal may show it. The line stays equivalent JSON.
 */
const jsonStream = (write: (line: string) => void): DestinationStream => ({
  write: (line) => write(isPlain.test(line) ? line : visibleLines(line)),
})

/** Matches a line that needs no escaping. Most lines need none. */
const isPlain = /^[\x20-\x7e]*\n$/

function prettyStream(stream: NodeJS.WriteStream, write: (line: string) => void): DestinationStream {
  const hasColor = stream.isTTY === true && process.env['NO_COLOR'] === undefined
  return {
    write(line) {
      // The fields about the process are left out, because the user at the terminal started it.
      const { level, time, msg, err, pid: _pid, host: _host, version: _version, ...fields } = JSON.parse(line)
      const color = hasColor ? (colors[level] ?? '') : ''
      const details = Object.entries(fields).map(
        ([name, value]) =>
          `${visibleText(name)}=${typeof value === 'string' ? visibleText(value) : visibleJson(value)}`,
      )
      // Some of this text comes from nodes, sellers and facilitators. It must not start a new line or move the terminal's
      // cursor.
      const cause = err === undefined ? [] : [`(${oneLine(String(err.message ?? err))})`]
      const messageLine = oneLine(String(msg ?? ''))
      const text = [String(time).slice(11, 19), level.padEnd(5), messageLine, ...details, ...cause].join(' ')
      write(`${color}${text}${color === '' ? '' : '\x1b[0m'}\n`)
    },
  }
}

/** Puts a text on one line. A problem of the configuration, for example, has several lines. */
const oneLine = (text: string): string => visibleText(text.replace(/\s*\n\s*/g, ' '))
