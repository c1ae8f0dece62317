import { type DestinationStream, pino } from 'pino'
import type { Config } from '../../core/config/types.ts'
import type { Log } from '../../core/ports/log.ts'

const colors: Readonly<Record<string, string>> = { warn: '\x1b[33m', error: '\x1b[31m', debug: '\x1b[2m' }

/** The program's log on standard error: lines for people on a terminal, JSON for machines elsewhere. */
export function createLog(
  { level, format }: Config['log'],
  stream: NodeJS.WriteStream = process.stderr,
): Log {
  const isPretty = format === 'pretty' || (format === 'auto' && stream.isTTY === true)
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  }
  return pino(options, isPretty ? prettyStream(stream) : stream) as Log
}

function prettyStream(stream: NodeJS.WriteStream): DestinationStream {
  const hasColor = stream.isTTY === true && process.env['NO_COLOR'] === undefined
  return {
    write(line) {
      const { level, time, msg, err, ...fields } = JSON.parse(line)
      const color = hasColor ? (colors[level] ?? '') : ''
      const details = Object.entries(fields).map(
        ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
      )
      const cause = err === undefined ? [] : [`(${err.message})`]
      const text = [String(time).slice(11, 19), level.padEnd(5), msg, ...details, ...cause].join(' ')
      stream.write(`${color}${text}${color === '' ? '' : '\x1b[0m'}\n`)
    },
  }
}
