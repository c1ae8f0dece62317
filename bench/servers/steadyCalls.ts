// Calls one path at a steady rate, whether the answers come or not: {port, path, everyMs, seconds} in its first argument.
// Prints {p50Ms, p99Ms, maxMs, calls} of how long the answers took, those that came late because others did included.
import { connect, type Socket } from 'node:net'
import { percentile } from '../harness/median.ts'

const { port, path, everyMs, seconds } = JSON.parse(process.argv[2]!) as {
  port: number
  path: string
  everyMs: number
  seconds: number
}
const request = `GET ${path} HTTP/1.1\r\nHost: gateway.test\r\nAccept: */*\r\n\r\n`
const times: number[] = []
const idle: Socket[] = []
let underWay = 0

function call(): void {
  underWay++
  const socket = idle.pop() ?? connect({ port, host: '127.0.0.1', noDelay: true })
  const startedMs = performance.now()
  let text = ''
  socket.removeAllListeners('data')
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1')
    const end = text.indexOf('\r\n\r\n')
    if (end === -1) return
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1] ?? 0)
    if (text.length < end + 4 + length) return
    if (!text.startsWith('HTTP/1.1 2'))
      throw new Error(`Expected a call to be answered, got ${text.slice(0, 300)}`)
    times.push(performance.now() - startedMs)
    underWay--
    idle.push(socket)
  })
  socket.write(request)
}

const endsMs = performance.now() + seconds * 1_000
let dueMs = performance.now()
const timer = setInterval(() => {
  // Of a timer that came late as well: what was due then is not the gateway's, and is not asked again.
  for (const nowMs = performance.now(); dueMs <= nowMs; dueMs += everyMs) if (nowMs - dueMs < everyMs) call()
  if (performance.now() < endsMs) return
  clearInterval(timer)
  const wait = setInterval(() => {
    if (underWay > 0) return
    clearInterval(wait)
    const of = (percent: number) => percentile(times, percent)
    console.log(JSON.stringify({ p50Ms: of(50), p99Ms: of(99), maxMs: of(100), calls: times.length }))
    process.exit()
  }, 5)
}, 1)
