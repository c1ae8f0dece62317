import { writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { createReceiptSigner } from '../../adapters/chains/evm/receiptSigner.ts'
import { createSealer } from '../../adapters/secrets/sealer.ts'
import { signOffer, signReceipt } from '../../core/x402/offerReceipt.ts'
import { createPipeline } from '../program.ts'

const signer = createReceiptSigner(createSealer(Buffer.alloc(32, 7)))

async function startOrigin(t: Test, document: object, status = 200) {
  return startServer(t, (_request, response) => response.writeHead(status).end(JSON.stringify(document)))
}

async function startServer(t: Test, respond: RequestListener) {
  const paths: string[] = []
  const server = createServer((request, response) => {
    paths.push(request.url!)
    respond(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, paths }
}

const didOf = (address: string) => ({
  verificationMethod: [{ blockchainAccountId: `eip155:1:${address}` }],
})

const payloadAt = (origin: string) => ({
  version: 1 as const,
  network: 'eip155:84532',
  resourceUrl: `${origin}/api/link/demo/weather`,
  payer: '0x00000000000000000000000000000000000000b1',
  issuedAt: 1_700_000_000,
  transaction: `0x${'a'.repeat(64)}`,
})

/** Runs the command. @returns its exit code and what it has printed */
async function run(t: Test, document: object, ...flags: string[]) {
  const file = join(t.testdir(), 'receipt.json')
  writeFileSync(file, JSON.stringify(document))
  const { exitCode: before } = process
  const [out, err] = [process.stdout.write, process.stderr.write]
  const printed: string[] = []
  const errors: string[] = []
  process.stdout.write = ((text: string) => printed.push(text) > 0) as typeof out
  process.stderr.write = ((text: string) => errors.push(text) > 0) as typeof err
  try {
    process.exitCode = 0
    await createPipeline().parseAsync(['verify-receipt', file, '--json', ...flags], { from: 'user' })
    const lines = printed.map((text) => JSON.parse(text))
    return { exitCode: process.exitCode, lines, errors: errors.join('') }
  } finally {
    process.stdout.write = out
    process.stderr.write = err
    process.exitCode = before
  }
}

t.test('a receipt is valid if a published key of its origin has signed it', async (t) => {
  const { origin, paths } = await startOrigin(t, didOf(signer.address))
  const receipt = signReceipt(signer, payloadAt(origin))
  const { exitCode, lines } = await run(t, receipt, '--origin', origin)
  t.equal(exitCode, 0)
  t.match(lines, [
    { kind: 'receipt', isValid: true, problem: null, ...payloadAt(origin), signer: signer.address },
  ])
  t.match(lines[0].proves, /paid and got what was sold. It names the transaction/)
  t.strictSame(paths, ['/.well-known/did.json'])
  t.match(await run(t, receipt, '--address', signer.address.toLowerCase()), { exitCode: 0 }, 'offline')
})

t.test('a changed receipt, another key and another origin are named', async (t) => {
  const { origin } = await startOrigin(t, didOf(signer.address))
  const receipt = signReceipt(signer, payloadAt(origin))
  const changed = { ...receipt, payload: { ...receipt.payload, payer: `0x${'9'.repeat(40)}` } }
  t.match(await run(t, changed, '--origin', origin), {
    exitCode: 1,
    lines: [{ isValid: false, problem: /^signature is by 0x\w{40}, but the expected key is/ }],
  })
  t.match(await run(t, receipt, '--address', `0x${'1'.repeat(40)}`), { exitCode: 1 })
  const foreign = signReceipt(signer, payloadAt('https://other.example'))
  t.match(await run(t, foreign, '--origin', origin), {
    exitCode: 1,
    lines: [{ problem: /^resourceUrl is at https:\/\/other.example/ }],
  })
})

t.test('every offer of a 402 is checked, and an offer whose time is over proves nothing', async (t) => {
  const offer = {
    version: 1 as const,
    resourceUrl: 'https://a.example/x',
    scheme: 'exact',
    network: 'eip155:84532',
    asset: '0xa',
    payTo: '0xb',
    amount: '1000',
    validUntil: 0,
  }
  const offers = [signOffer(signer, offer, 0), signOffer(signer, { ...offer, validUntil: 1_000 }, 1)]
  const required = { x402Version: 2, extensions: { 'offer-receipt': { info: { offers } } } }
  t.match(await run(t, required, '--address', signer.address), {
    exitCode: 1,
    lines: [
      { kind: 'offer', isValid: true, proves: 'a.example offered these terms.' },
      { isValid: false, problem: /^validUntil has passed: the offer ended at 1970/ },
    ],
  })
})

t.test('wrong flags and unreadable keys say what was expected', async (t) => {
  const receipt = signReceipt(signer, payloadAt('https://a.example'))
  t.match(await run(t, receipt), { exitCode: 2, errors: /Expected --origin or --address/ })
  t.match(await run(t, receipt, '--address', '0x1'), { exitCode: 2, errors: /40 hex digits/ })
  t.match(await run(t, receipt, '--origin', 'http://a.example'), { exitCode: 2, errors: /to be https/ })
  const empty = await startOrigin(t, {})
  t.match(await run(t, receipt, '--origin', empty.origin), { exitCode: 1, errors: /has no key for EIP-712/ })
  const gone = await startOrigin(t, {}, 404)
  t.match(await run(t, receipt, '--origin', gone.origin), { exitCode: 1, errors: /the status was 404/ })
  t.match(await run(t, {}, '--address', signer.address), { exitCode: 1, errors: /contains none/ })
})

t.test('a document without an end is read up to 64 KiB, compressed or not', async (t) => {
  const receipt = signReceipt(signer, payloadAt('https://a.example'))
  let sentBytes = 0
  function* chunks() {
    for (;;) {
      sentBytes += 16_384
      yield Buffer.alloc(16_384, 'a')
    }
  }
  // The pipeline ends when the command closes the connection.
  const endless = await startServer(t, (_request, response) => {
    pipeline(chunks, response).catch(() => {})
  })
  t.match(await run(t, receipt, '--origin', endless.origin), {
    exitCode: 1,
    errors: /it is larger than 65,536 bytes/,
  })
  t.ok(sentBytes < 64 * 1_048_576, `${sentBytes} bytes, most of them in the buffers of the sockets`)
  const bomb = await startServer(t, (_request, response) =>
    response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(Buffer.alloc(50_000_000, ' '))),
  )
  t.match(await run(t, receipt, '--origin', bomb.origin), { errors: /it is larger than 65,536 bytes/ })
})

t.test('no redirect is followed, wherever it leads', async (t) => {
  const { origin: there, paths } = await startOrigin(t, didOf(signer.address))
  const receipt = signReceipt(signer, payloadAt('https://a.example'))
  for (const location of [`${there}/.well-known/did.json`, 'javascript:alert(1)', 'data:,x', 'file:///x'])
    for (const status of [301, 307]) {
      const { origin } = await startServer(t, (_request, response) =>
        response.writeHead(status, { location }).end(JSON.stringify(didOf(signer.address))),
      )
      t.match(await run(t, receipt, '--origin', origin), {
        exitCode: 1,
        errors: /but the server redirects.*Expected keys of the origin itself/s,
      })
    }
  t.strictSame(paths, [])
})

t.test('an address that is not http or https names no seller', async (t) => {
  const receipt = signReceipt(signer, payloadAt('https://a.example'))
  for (const address of [
    'javascript:alert(1)',
    'data:application/json,{}',
    'file:///etc/passwd',
    'a.example',
  ]) {
    const wrong = await run(t, receipt, '--origin', address)
    t.match(wrong, { exitCode: 2, errors: /Expected --origin to be an address such as https:/ })
    const resourceUrl = address === 'a.example' ? '' : address
    const named = signReceipt(signer, { ...receipt.payload, resourceUrl })
    t.match(await run(t, named, '--address', signer.address), {
      exitCode: 1,
      errors: /Expected payload.resourceUrl to be an http or https address/,
    })
  }
})
