import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Keypair } from '@solana/web3.js'
import t, { type Test } from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { builtInAssets } from '../../core/domain/asset.ts'
import type { OfferTerms } from '../../core/x402/offerTerms.ts'
import { startLocalEvm } from '../../localnet/evm/startLocalEvm.ts'
import { startLocalSolana } from '../../localnet/solana/startLocalSolana.ts'
import { createEvmBuyer } from './evmBuyer.ts'
import { verifyReceipt } from './receipt.ts'
import { createSolanaBuyer } from './solanaBuyer.ts'

const evm = await startLocalEvm()
t.teardown(() => evm.close())
const solana = await startLocalSolana({ slotMs: 50 })
t.teardown(() => solana.close())

const privateKey = generatePrivateKey()
const payer = privateKeyToAccount(privateKey).address
await evm.mintUsdc(payer, 1_000_000n)
const keypair = Keypair.generate()
solana.mintUsdc(keypair.publicKey.toBase58(), 1_000_000n)
const solanaPayee = Keypair.generate().publicKey.toBase58()
solana.createAta(solanaPayee)

const evmTerms: OfferTerms = {
  scheme: 'exact',
  asset: builtInAssets.find((asset) => asset.network === evm.network)!,
  amountAtomic: 10_000n,
  payTo: privateKeyToAccount(generatePrivateKey()).address,
  maxTimeoutSeconds: 300,
  extra: { name: 'USDC', version: '2' },
}
const solanaTerms: OfferTerms = {
  scheme: 'exact',
  asset: builtInAssets.find((asset) => asset.network === solana.network)!,
  amountAtomic: 10_000n,
  payTo: solanaPayee,
  maxTimeoutSeconds: 300,
  extra: { feePayer: Keypair.generate().publicKey.toBase58() },
}

type Tamper = (method: string, honest: unknown) => unknown

/** A node that forwards calls to a chain and changes the results. Its path represents an access key. */
async function startNode(t: Test, rpcUrl: string, tamper: Tamper): Promise<string> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const call = JSON.parse(Buffer.concat(chunks).toString()) as { id: number; method: string }
    const answer = await fetch(rpcUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(call),
    })
    const { result } = (await answer.json()) as { result: unknown }
    const changed = tamper(call.method, result)
    if (changed instanceof Error) return response.writeHead(500).end(changed.message)
    response.end(JSON.stringify({ jsonrpc: '2.0', id: call.id, result: changed }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/secret-access-key`
}

const tamperOn =
  (method: string, value: unknown): Tamper =>
  (called, honest) =>
    called === method ? value : honest

const evmTampering: Record<string, [lie: Tamper, message: RegExp]> = {
  'serves another chain': [tamperOn('eth_chainId', '0x1'), /serves chain 1/],
  'has another token at the address': [
    tamperOn('eth_call', `0x${'11'.repeat(32)}`),
    /different EIP-712 domain/,
  ],
  'has no token at the address': [tamperOn('eth_call', '0x'), /unexpected result for eth_call/],
  'answers with nothing': [tamperOn('eth_blockNumber', null), /expected a number from the node/],
  'is broken': [() => new Error('<html>'), /returned HTTP 500/],
}

for (const [name, [tamper, message]] of Object.entries(evmTampering)) {
  t.test(`nothing is signed for an EVM node that ${name}, and its URL is not repeated`, async (t) => {
    const buyer = createEvmBuyer({ privateKey, rpcUrl: await startNode(t, evm.rpcUrl, tamper) })
    const error = await buyer.sign(evmTerms, AbortSignal.timeout(5_000)).catch((e: Error) => e)
    t.match(error, { name: 'BuyerRefusal', message })
    t.notMatch((error as Error).message, /secret-access-key/)
  })
}

const solanaTampering: Record<string, [lie: Tamper, message: RegExp]> = {
  'serves another chain': [
    tamperOn('getGenesisHash', '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp'),
    /serves chain 5eykt/,
  ],
  'knows no accounts': [
    tamperOn('getMultipleAccounts', { value: [null, null, null, null] }),
    /mint .* is not that of the known USDC/,
  ],
  'answers with fewer accounts': [tamperOn('getMultipleAccounts', { value: [] }), /unexpected result/],
  'knows no block hash': [tamperOn('getLatestBlockhash', { value: {} }), /unexpected result/],
  'is broken': [() => new Error('<html>'), /returned HTTP 500/],
}

for (const [name, [tamper, message]] of Object.entries(solanaTampering)) {
  t.test(`nothing is signed for a Solana node that ${name}, and its URL is not repeated`, async (t) => {
    const rpcUrl = await startNode(t, solana.rpcUrl, tamper)
    const buyer = createSolanaBuyer({ secret: keypair.secretKey, rpcUrl })
    const error = await buyer.sign(solanaTerms, AbortSignal.timeout(5_000)).catch((e: Error) => e)
    t.match(error, { name: 'BuyerRefusal', message })
    t.notMatch((error as Error).message, /secret-access-key/)
  })
}

t.test('a wallet signs once, however it is called', async (t) => {
  for (const [buyer, terms] of [
    [createEvmBuyer({ privateKey, rpcUrl: evm.rpcUrl }), evmTerms],
    [createSolanaBuyer({ secret: keypair.secretKey, rpcUrl: solana.rpcUrl }), solanaTerms],
  ] as const) {
    const signal = AbortSignal.timeout(10_000)
    const tries = await Promise.allSettled([1, 2, 3].map(() => buyer.sign(terms, signal)))
    t.strictSame(
      tries.map(({ status }) => status),
      ['fulfilled', 'rejected', 'rejected'],
    )
    await t.rejects(buyer.sign(terms, signal), {
      name: 'BuyerRefusal',
      message: /does not sign a second one/,
    })
  }
})

t.test('a wallet refuses by itself what its caller should have refused', async (t) => {
  const signal = AbortSignal.timeout(10_000)
  for (const change of [{ payTo: payer }, { amountAtomic: 0n }, { amountAtomic: -1n }, { extra: {} }]) {
    const buyer = createEvmBuyer({ privateKey, rpcUrl: evm.rpcUrl })
    await t.rejects(buyer.sign({ ...evmTerms, ...change }, signal), { name: 'BuyerRefusal' })
  }
  for (const change of [{ payTo: keypair.publicKey.toBase58() }, { amountAtomic: 0n }, { extra: {} }]) {
    const buyer = createSolanaBuyer({ secret: keypair.secretKey, rpcUrl: solana.rpcUrl })
    await t.rejects(buyer.sign({ ...solanaTerms, ...change }, signal), { name: 'BuyerRefusal' })
  }
})

t.test('a node that is sent elsewhere is not followed', async (t) => {
  const server = createServer((_, response) => response.writeHead(307, { location: evm.rpcUrl }).end())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const rpcUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const buyer = createEvmBuyer({ privateKey, rpcUrl })
  await t.rejects(buyer.sign(evmTerms, AbortSignal.timeout(5_000)), {
    name: 'BuyerRefusal',
    message: /No node responded to/,
  })
})

t.test('a node of another chain verifies nothing', async (t) => {
  const buyer = createEvmBuyer({ privateKey, rpcUrl: evm.rpcUrl })
  const payment = await buyer.sign(evmTerms, AbortSignal.timeout(5_000))
  const rpcUrl = await startNode(t, evm.rpcUrl, tamperOn('eth_chainId', '0x1'))
  for (const transaction of [null, `0x${'ab'.repeat(32)}`]) {
    const verdict = await verifyReceipt({ payment, transaction, signal: AbortSignal.timeout(1_000) }, rpcUrl)
    t.match(verdict, { isVerified: false, problem: /serves chain 1/ })
  }
})

t.test('of a node that does not answer nobody says what the chain has', async (t) => {
  const buyer = createEvmBuyer({ privateKey, rpcUrl: evm.rpcUrl })
  const payment = await buyer.sign(evmTerms, AbortSignal.timeout(5_000))
  const end = new AbortController()
  const server = createServer(() => end.abort())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const rpcUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const transaction = `0x${'ab'.repeat(32)}`
  t.match(await verifyReceipt({ payment, transaction, signal: end.signal }, rpcUrl), {
    isVerified: false,
    charged: 'unknown',
    problem: 'the chain did not respond in time',
  })
})

t.test('an authorisation that has expired unused is reported as never charged', async (t) => {
  const buyer = createEvmBuyer({ privateKey, rpcUrl: evm.rpcUrl })
  const payment = await buyer.sign(evmTerms, AbortSignal.timeout(5_000))
  const look = () =>
    verifyReceipt({ payment, transaction: null, signal: AbortSignal.timeout(700) }, evm.rpcUrl)
  t.match(await look(), { isVerified: false, charged: 'not_yet' })
  await evm.advanceTime(400)
  t.match(await look(), { isVerified: false, charged: 'no' })
})
