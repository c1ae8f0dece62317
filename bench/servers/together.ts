// How many payments one settling key settles in a second where a block comes every two, and what gas each takes:
// `tollgate start` with the embedded facilitator, an API that answers at once, buyers who all pay at the same time and again as
// soon as they have their answer. In its first argument: TogetherOptions. Prints a TogetherResult.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { PaymentRequired } from '@x402/core/types'
import { startApi } from '../../test/e2e/helpers/api.ts'
import { type Buyer, newBuyer } from '../../test/e2e/helpers/buyers.ts'
import { newSellerWallets, startChains } from '../../test/e2e/helpers/chains.ts'
import { writeConfig } from '../../test/e2e/helpers/config.ts'
import { openStore } from '../../test/e2e/helpers/store.ts'
import { runLoad } from '../harness/load.ts'
import { startShipped } from '../harness/shipped.ts'

export interface TogetherOptions {
  /** Maximum number of payments per transaction. */
  readonly together: number
  /** Calls under way at once. */
  readonly atOnce: number
  readonly calls: number
}

export interface TogetherResult {
  readonly paymentsPerSecond: number
  readonly gasPerPayment: number
  readonly payments: number
  readonly transactions: number
  readonly p50Ms: number
  readonly cpuUs: number
}

const { together, atOnce, calls } = JSON.parse(process.argv[2]!) as TogetherOptions
const blockTimeMs = 2_000
/** Of a block of Base, 2026-11, roundly. */
const blockGas = 200_000_000
const buyerCount = 64
const oneUsdc = 1_000_000n

const undo: (() => unknown)[] = []
const stage = { teardown: (step: () => unknown) => void undo.push(step) }
try {
  const chains = await startChains(stage as never, { evm: { blockTimeMs, blockGas } })
  const [chain] = chains.both
  const config = await writeConfig(stage as never, chains, {
    evm: {
      rpcUrls: [chains.evm.rpcUrl],
      facilitator: {
        privateKey: `\${TOLLGATE_FACILITATOR_EVM_KEY}`,
        maxPaymentsPerTransaction: together,
        maxGasPerStoreAndDay: 100,
      },
    },
  })
  const api = await startApi(stage as never)
  const wallets = newSellerWallets(chains)
  const store = await openStore(config, chains.env, wallets)
  const gateway = await startShipped(config.file, Number(new URL(config.url).port), chains.env)
  stage.teardown(gateway.stop)
  const url = await store.addLink({ url: api.url, slug: 'paid', price: '0.01' })
  const offer = await offerOf(url)
  const buyers: Buyer[] = []
  for (let n = 0; n < buyerCount; n++) buyers.push(await newBuyer(chains, chain, 1_000n * oneUsdc))

  const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'))
  stage.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const load = async (count: number) => {
    const payments: string[] = []
    for (let n = 0; n < count; n++) payments.push(await buyers[n % buyerCount]!.signOffer(offer))
    const paymentFile = join(folder, `payments-${count}`)
    writeFileSync(paymentFile, `${payments.join('\n')}\n`)
    const { port, host, pathname: path } = new URL(url)
    const options = { path, host, paymentFile, connections: Math.min(atOnce, count) }
    const result = await runLoad({ hasWrk: false, nginx: null, canPin: false }, Number(port), options, 300)
    if (result.requests !== count || result.refused > 0 || result.broken > 0) {
      throw new Error(
        `Expected ${count} paid calls, got ${result.requests}, ${result.refused} refused, ${result.broken} broken.`,
      )
    }
    return result
  }
  // The seller's account at the token, the fees and the code of the payers are known then.
  await load(buyerCount)
  const cpuBefore = gateway.cpu()
  const blockBefore = await chains.evm.blockNumber()
  const { seconds, p50Ms } = await load(calls)
  const cpuUs = ((gateway.cpu() - cpuBefore) / calls) * 1e6
  const { gas, transactions } = await usedSince(blockBefore)
  await gateway.stop()
  const result = {
    paymentsPerSecond: calls / seconds,
    gasPerPayment: gas / calls,
    cpuUs,
    payments: calls,
    transactions,
    p50Ms: p50Ms!,
  }
  console.log(JSON.stringify(result satisfies TogetherResult))

  /** Only the settling key sends transactions here. */
  async function usedSince(block: bigint): Promise<{ gas: number; transactions: number }> {
    let gas = 0
    let transactions = 0
    for (let n = block + 1n; n <= (await chains.evm.blockNumber()); n++) {
      const { gasUsed, transactions: hashes } = await chains.evm.rpc<{
        gasUsed: string
        transactions: string[]
      }>('eth_getBlockByNumber', `0x${n.toString(16)}`, false)
      gas += Number(gasUsed)
      transactions += hashes.length
    }
    return { gas, transactions }
  }
} finally {
  for (const step of undo.reverse()) await step()
}

/** What the link asks for, on the one network that is measured. */
async function offerOf(url: string): Promise<PaymentRequired> {
  const response = await fetch(url)
  await response.body?.cancel()
  const header = response.headers.get('payment-required')!
  const offer = JSON.parse(Buffer.from(header, 'base64').toString()) as PaymentRequired
  return { ...offer, accepts: offer.accepts.filter(({ network }) => network.startsWith('eip155:')) }
}
