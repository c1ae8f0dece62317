// The load generator for machines without wrk, for what is used once (payments, bodies) and for time per request:
// keep-alive connections with one request each under way. In its first argument: GenerateOptions. Prints one line of
// JSON like wrk.lua, with the median time of an answer.
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'

export interface GenerateOptions {
  readonly port: number
  readonly connections: number
  readonly seconds: number
  readonly method: string
  readonly path: string
  readonly bodyFile: string
  readonly paymentFile: string
  /** File with one body a line; each is used once, and the load ends when they are used up. */
  readonly bodiesFile: string
  /** File with one path a line: each is asked in turn, in the place of `path`. */
  readonly pathsFile: string
  /** Each path is asked once, and the load ends. */
  readonly isOnce: boolean
  readonly host: string
  readonly headers: Readonly<Record<string, string>>
  /** Looks for answers all the time instead of waiting to be woken. */
  readonly isAwake: boolean
}

const options = JSON.parse(process.argv[2]!) as GenerateOptions
const body = options.bodyFile === '-' ? '' : readFileSync(options.bodyFile, 'latin1')
const linesOf = (file: string) => (file === '-' ? null : readFileSync(file, 'latin1').trimEnd().split('\n'))
const payments = linesOf(options.paymentFile)
const bodies = linesOf(options.bodiesFile)
const own = Object.entries(options.headers).map(([name, value]) => `${name}: ${value}\r\n`)
const paths = linesOf(options.pathsFile) ?? [options.path]
const heads = paths.map(
  (path) => `${options.method} ${path} HTTP/1.1\r\nHost: ${options.host}\r\nAccept: */*\r\n${own.join('')}`,
)
const withBody = (text: string) =>
  `Content-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`
const rest = body === '' ? '\r\n' : withBody(body)
const times: number[] = []
const count = { requests: 0, refused: 0, broken: 0 }
/** The first response with a status of 400 or above, as far as it came with its head. */
let firstRefusal: string | undefined
let used = 0
let open = options.connections
let isOver = false

/**
 * Undefined when what is used once is used up.
 *
 * @param own the connection's own number for its next payment. A channel's vouchers have an order, so each connection has payments
 *   of its own
 */
function nextRequest(own: number): string | undefined {
  if (isOver) return undefined
  const n = payments === null ? used++ : own
  if (options.isOnce && n >= heads.length) return undefined
  const head = heads[n % heads.length]!
  const once = (payments ?? bodies)?.[n]
  if (payments !== null)
    return once === undefined ? undefined : `${head}PAYMENT-SIGNATURE: ${once}\r\n${rest}`
  if (bodies !== null) return once === undefined ? undefined : head + withBody(once)
  return head + rest
}

function run(at: number): void {
  let own = at
  const socket = connect({ port: options.port, host: '127.0.0.1', noDelay: true })
  /** The head that has come so far; null while a body comes. */
  let responseHead: string | null = ''
  let owed = 0
  let askedMs = 0
  const ask = () => {
    const request = nextRequest(own)
    own += options.connections
    askedMs = performance.now()
    if (request === undefined) socket.end()
    else socket.write(request, 'latin1')
  }
  socket.on('connect', ask)
  socket.on('data', (chunk: Buffer) => {
    let left = chunk.length
    if (responseHead !== null) {
      responseHead += chunk.toString('latin1')
      const end = responseHead.indexOf('\r\n\r\n')
      if (end === -1) return
      left = responseHead.length - end - 4
      owed = Number(/\r\ncontent-length: *(\d+)/i.exec(responseHead)?.[1] ?? 0)
      if (!/^HTTP\/1\.1 [23]/.test(responseHead)) {
        count.refused++
        firstRefusal ??= responseHead
      }
      responseHead = null
    }
    owed -= left
    if (owed > 0) return
    responseHead = ''
    count.requests++
    times.push(performance.now() - askedMs)
    ask()
  })
  socket.on('error', () => count.broken++)
  socket.on('close', () => {
    if (--open === 0) finish()
  })
}

function finish(): void {
  times.sort((a, b) => a - b)
  const seconds = (performance.now() - startedMs) / 1000
  console.log(JSON.stringify({ ...count, firstRefusal, seconds, p50Ms: times[times.length >> 1] ?? 0 }))
  process.exit()
}

function stayAwake(): void {
  if (open > 0) setImmediate(stayAwake)
}

const startedMs = performance.now()
if (options.isAwake) stayAwake()
for (let i = 0; i < options.connections; i++) run(i)
setTimeout(() => (isOver = true), options.seconds * 1000)
