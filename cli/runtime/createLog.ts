import { hostname } from 'node:os'
import { type DestinationStream, type LogFn, type Logger, pino } from 'pino'
import type { Config } from '../../core/config/types.ts'
import type { Log } from '../../core/ports/log.ts'
import { isStoreAway } from '../../core/ports/refusals.ts'
import { visibleJson, visibleLines, visibleText } from '../../core/text/visibleText.ts'
import { version } from '../version.ts'

const colors: Readonly<Record<string, string>> = { warn: '\x1b[33m', error: '\x1b[31m', debug: '\x1b[2m' }

/** That the store is away is noticed by everything that wants it, again and again; the log says it so often. */
const SAID_AGAIN_MS = 30_000
/** Payments that are named in such lines; more than these are said more often. */
const MOST_REMEMBERED = 1_000

/**
 * The program's log on standard error: lines for people on a terminal, JSON for machines elsewhere. A line that the store is away
 * comes again after half a minute, with the number of those that were `leftOut` meanwhile.
 *
 * @param now milliseconds that only go ahead
 */
export function createLog(
  { level, format }: Config['log'],
  stream: NodeJS.WriteStream = process.stderr,
  now: () => number = performance.now.bind(performance),
): Log {
  // A full disk, or whoever read it is gone: calls go on without a log.
  stream.on('error', () => undefined)
  const isPretty = format === 'pretty' || (format === 'auto' && stream.isTTY === true)
  const options = {
    level,
    base: { pid: process.pid, host: hostname(), version: version() },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    hooks: { logMethod: lessOften(now) },
  }
  return pino(options, isPretty ? prettyStream(stream) : jsonStream(stream)) as Log
}

function lessOften(now: () => number) {
  const said = new Map<string, { readonly atMs: number; leftOut: number }>()
  return function (this: Logger, args: Parameters<LogFn>, method: LogFn): void {
    const [fields, message] = args as unknown as [{ readonly err?: unknown }, string | undefined]
    const { err, ...others } = fields
    if (!isStoreAway(err)) return method.apply(this, args)
    const about = Object.entries(others).map(([name, value]) => `${name}=${String(value)}`)
    const key = [message, ...about].join(' ')
    const before = said.get(key)
    if (before !== undefined && now() - before.atMs < SAID_AGAIN_MS) {
      before.leftOut++
      return
    }
    if (said.size >= MOST_REMEMBERED) said.clear()
    said.set(key, { atMs: now(), leftOut: 0 })
    const leftOut = before?.leftOut ?? 0
    method.call(this, leftOut > 0 ? { ...fields, leftOut } : fields, message)
  }
}

/**
 * Nodes, sellers and facilitators write some of the words, and a terminal may show the lines: what JSON leaves as it is (C1 controls,
 * marks that turn the direction of writing) is escaped as well. The JSON stays the same.
 */
const jsonStream = (stream: NodeJS.WriteStream): DestinationStream => ({
  write: (line) => void stream.write(isPlain.test(line) ? line : visibleLines(line)),
})

/** As most lines are: nothing to escape in it. */
const isPlain = /^[\x20-\x7e]*\n$/

function prettyStream(stream: NodeJS.WriteStream): DestinationStream {
  const hasColor = stream.isTTY === true && process.env['NO_COLOR'] === undefined
  return {
    write(line) {
      // A terminal shows one process, which its reader has started.
      const { level, time, msg, err, pid: _pid, host: _host, version: _version, ...fields } = JSON.parse(line)
      const color = hasColor ? (colors[level] ?? '') : ''
      const details = Object.entries(fields).map(
        ([name, value]) =>
          `${visibleText(name)}=${typeof value === 'string' ? visibleText(value) : visibleJson(value)}`,
      )
      // Nodes, sellers and facilitators write some of these words: none of them begins a line or moves the terminal's cursor.
      const cause = err === undefined ? [] : [`(${oneLine(String(err.message ?? err))})`]
      const said = oneLine(String(msg ?? ''))
      const text = [String(time).slice(11, 19), level.padEnd(5), said, ...details, ...cause].join(' ')
      stream.write(`${color}${text}${color === '' ? '' : '\x1b[0m'}\n`)
    },
  }
}

/** Such as a problem of the configuration, which is drawn in many lines for people. */
const oneLine = (text: string): string => visibleText(text.replace(/\s*\n\s*/g, ' '))
