import { createHash, hash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, get, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { HttpTransport } from '../gateway/httpTransport.ts'
import { startGateway } from './helpers/gateway.ts'
import { sellerOf } from './helpers/sellerOf.ts'
import { createScriptedSettler, scriptedPayment } from './helpers/settler.ts'

// What comes from sellers is read into memory that the next bytes are read into, and what goes out waits in memory that is used
// again: one byte that is kept too long would be in another buyer's paid response.

const CALLS = 300
const AT_ONCE = 40

/** Numbers from a seed; the same ones each time. */
function randomOf(seed: number): (below: number) => number {
  let state = seed * 2_654_435_761
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 2_246_822_519) + 0x9e3779b9) | 0
    return (state >>> 0) % below
  }
}

/** More than the system takes from a writer whose reader stands still. */
const LARGE_BYTES = 9_000_000
const SMALL = 12_000

/** The answer with this number: other bytes than any other, most of them a few bytes or a few reads long. */
function responseOf(number: number): Buffer {
  const random = randomOf(number)
  const length = number % 30 === 0 ? LARGE_BYTES : random([50, 5_000, 20_000, 150_000, 700_000][number % 5]!)
  const body = Buffer.allocUnsafe(length)
  for (let at = 0; at < length; at++) body[at] = (number * 31 + at * (1 + (number % 7))) % 253
  return body
}

/** @param most bytes of a piece: small ones of a large answer are still small when the gateway reads them */
async function inPieces(
  res: ServerResponse,
  body: Buffer,
  most: number,
  random: (below: number) => number,
): Promise<void> {
  for (let at = 0; at < body.length; ) {
    const piece = body.subarray(at, (at += 1 + random(most)))
    if (!res.write(piece)) await new Promise((resolve) => res.once('drain', resolve).once('close', resolve))
    if (res.destroyed) return
    if (most === SMALL) await new Promise(setImmediate)
    else if (random(3) === 0) await sleep(random(3))
  }
  res.end()
}

/** Some stand still now and then, and some go away in the middle: null. */
function read(url: string, payment: string, random: (below: number) => number): Promise<Buffer | null> {
  const [isSlow, leaves] = [random(3) === 0, random(10) === 0]
  return new Promise((resolve, reject) => {
    const request = get(
      url,
      { agent: false, headers: { 'payment-signature': payment } },
      async (response) => {
        const pieces: Buffer[] = []
        try {
          for await (const piece of response) {
            pieces.push(piece)
            if (leaves) return void request.destroy()
            if (isSlow) await sleep(random(8))
          }
          if (response.statusCode !== 200)
            reject(new Error(`${response.statusCode}: ${Buffer.concat(pieces)}`))
          resolve(Buffer.concat(pieces))
        } catch (error) {
          reject(error)
        } finally {
          if (leaves) resolve(null)
        }
      },
    )
    request.on('error', (error) => (leaves ? resolve(null) : reject(error)))
  })
}

t.test('every buyer gets the bytes that the seller sent, whoever else reads at the same time', async (t) => {
  const settler = createScriptedSettler()
  const seller = await sellerOf(t, (req, res) => {
    const number = Number(new URL(req.url!, 'http://s').searchParams.get('n'))
    const random = randomOf(number)
    const body = responseOf(number)
    if (random(2) === 0) res.setHeader('content-length', body.length)
    if (random(3) === 0 && number % 60 !== 0) res.end(body)
    else void inPieces(res, body, number % 60 === 0 ? SMALL : 90_000, random)
  })
  const gateway = await startGateway(t, {
    settlers: [settler],
    plugins: [
      ...[{ use: 'x402' }, { use: 'replay-guard' }],
      ...[{ use: 'upstream' }, { use: 'purchase-record' }],
    ],
  })
  const links: string[] = []
  for (const [slug, price, settle] of [
    ['free', '0', 'after'],
    ['held', '0.10', 'after'],
    ['streamed', '0.10', 'before'],
  ] as const)
    links.push(
      (await gateway.addLink({ ...{ slug, price, settle }, url: seller.url, responseMode: 'raw' })).url,
    )

  let next = 0
  let whole = 0
  const buyer = async () => {
    while (next < CALLS) {
      const number = next++
      const url = `${links[number % links.length]}?n=${number}`
      const payment = scriptedPayment(`p-${number}`, '100000')
      const expected = hash('sha256', responseOf(number))
      const body = await read(url, payment, randomOf(number + CALLS))
      if (body !== null) whole++
      if (body !== null && hash('sha256', body) !== expected) t.fail(`answer ${number} has other bytes`)
      // What was kept of it is the same.
      if (number % links.length === 0 || body === null) continue
      const again = await read(url, payment, () => 1)
      if (again === null || hash('sha256', again) !== expected)
        t.fail(`answer ${number} has other bytes again`)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, buyer))
  t.ok(whole > CALLS / 2, `${whole} of ${CALLS} were read to their end`)
})

t.test('what waits for a buyer who stands still is not what was written after it', async (t) => {
  const lent = Buffer.alloc(70_000)
  const written = createHash('sha256')
  const server = createServer((req, res) => {
    const transport = new HttpTransport(req, res, null, 'id-of-a-request')
    transport.begin(200, [])
    let rounds = 0
    const write = (): void => {
      if (rounds === 3_000) return transport.end()
      const piece = lent.subarray(0, [70_000, 100, 40_000, 12_000, 65_536][rounds % 5])
      piece.fill(++rounds % 251)
      written.update(piece)
      // More than one waits at a time, small ones behind large ones.
      if (transport.write(piece) || rounds % 5 !== 0) setImmediate(write)
      else transport.onDrain(write)
    }
    write()
  }).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const read = createHash('sha256')
  await new Promise<void>((resolve, reject) => {
    get({ port, host: '127.0.0.1', agent: false }, async (response) => {
      await sleep(300)
      for await (const piece of response) read.update(piece)
      resolve()
    }).on('error', reject)
  })
  t.equal(read.digest('hex'), written.digest('hex'))
})
