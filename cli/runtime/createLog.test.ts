import { hostname } from 'node:os'
import { Writable } from 'node:stream'
import t from 'tap'
import { storeUnavailable } from '../../core/ports/refusals.ts'
import { createLog } from './createLog.ts'

function logged(now: () => number) {
  const lines: Record<string, unknown>[] = []
  const stream = new Writable({
    write(line, _encoding, done) {
      lines.push(JSON.parse(line))
      done()
    },
  })
  return { lines, log: createLog({ level: 'info', format: 'json' }, stream as never, now) }
}

t.test(
  'that the store is away is said once in half a minute by each who notices, and how often',
  async (t) => {
    let nowMs = 0
    const { lines, log } = logged(() => nowMs)
    for (let i = 0; i < 20; i++) {
      log.warn({ err: storeUnavailable('connect ECONNREFUSED') }, 'could not look for webhooks')
      log.warn({ err: storeUnavailable('connect ECONNREFUSED') }, 'could not renew a lease')
      nowMs += 1_000
    }
    t.strictSame(
      lines.map(({ msg, leftOut }) => [msg, leftOut]),
      [
        ['could not look for webhooks', undefined],
        ['could not renew a lease', undefined],
      ],
    )
    nowMs = 30_000
    log.warn({ err: storeUnavailable('connect ECONNREFUSED') }, 'could not renew a lease')
    t.match(lines.at(-1), { msg: 'could not renew a lease', leftOut: 19, err: { message: /ECONNREFUSED/ } })
  },
)

t.test('what is said of a payment, a network or another error is said each time', async (t) => {
  const { lines, log } = logged(() => 0)
  const err = storeUnavailable('connect ECONNREFUSED')
  log.error({ err, purchaseId: 'one' }, 'charged, and not written yet')
  log.error({ err, purchaseId: 'two' }, 'charged, and not written yet')
  log.warn({ err, network: 'eip155:1' }, 'could not say who settles')
  log.warn({ err, network: 'eip155:2' }, 'could not say who settles')
  log.warn({ err: new Error('a mistake') }, 'a loop failed')
  log.warn({ err: new Error('a mistake') }, 'a loop failed')
  log.info({}, 'plain')
  log.info({}, 'plain')
  t.equal(lines.length, 8)
})

t.test('no word of a node, a seller or a facilitator forges a pretty line or moves the cursor', async (t) => {
  let text = ''
  const stream = new Writable({
    write(line, _encoding, done) {
      text += line
      done()
    },
  })
  const log = createLog({ level: 'info', format: 'pretty' }, stream as never)
  const forged = '\r\n12:00:00 info  paid\x1b[2K\x1b]0;title\x07\u009b31m\u202e\u2028\x7f\x00'
  log.warn(
    { err: new Error(`node: ${forged}`), reason: forged, list: [forged], [forged]: 1 },
    `said ${forged}`,
  )
  t.equal(text.indexOf('\n'), text.length - 1, 'one line')
  t.notMatch(text.trimEnd(), /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
  t.match(text, /node: 12:00:00 info {2}paid\\u\{1b\}\[2K/)
})

t.test('nor does it drive the terminal that shows JSON lines, which stay the same JSON', async (t) => {
  let text = ''
  const stream = new Writable({
    write(line, _encoding, done) {
      text += line
      done()
    },
  })
  const log = createLog({ level: 'info', format: 'json' }, stream as never)
  const driving =
    '\x7f\u0080\u009b31m\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069\u{e0041}\r\n\x1b[2K'
  log.warn({ err: new Error(driving), list: [driving], [driving]: 1 }, driving)
  log.info({ text: 'Größe שלום 你好 🙂' }, 'plain')
  t.notMatch(text.replaceAll('\n', ''), /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
  const [first, second] = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  t.match(first, { msg: driving, list: [driving], err: { message: driving }, [driving]: 1 })
  t.match(text, /Größe שלום 你好 🙂/, 'words of any script stay readable')
  t.equal(second.msg, 'plain')
})

t.test(
  'each line names its process, machine and version, so that the lines of a fleet can be told apart',
  async (t) => {
    const { lines, log } = logged(() => 0)
    log.info({}, 'plain')
    t.match(lines, [{ pid: process.pid, host: hostname(), version: /^\d+\.\d+\.\d+/ }])
  },
)
