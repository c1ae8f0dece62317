// How long a paid call takes: `tollgate start` with the embedded facilitator on a local chain, an API that answers at
// once, one buyer who presents payments that were signed before, one after the other. In its first argument: {chain,
// calls}. Prints {msOfCalls}: of each call, from the request to the last byte of the answer.

import { startApi } from '../../test/e2e/helpers/api.ts'
import { newBuyer, present } from '../../test/e2e/helpers/buyers.ts'
import { newSellerWallets, startChains } from '../../test/e2e/helpers/chains.ts'
import { startGateway } from '../../test/e2e/helpers/child.ts'
import { writeConfig } from '../../test/e2e/helpers/config.ts'
import { openStore } from '../../test/e2e/helpers/store.ts'

const { chain: name, calls } = JSON.parse(process.argv[2]!) as { chain: 'evm' | 'solana'; calls: number }
/** Calls that are not counted: code gets warm, and the gateway learns what the chain takes. */
const warmUp = 10

const undo: (() => unknown)[] = []
const stage = { teardown: (step: () => unknown) => void undo.push(step) }
try {
  // Blocks at once on both: what is measured is not the chain's own time.
  const chains = await startChains(stage as never, { solana: { confirmedAfterSlots: 0 } })
  const chain = chains.both.find((one) => one.name === name)!
  const config = await writeConfig(stage as never, chains, {
    // Nothing stands between the gateway and the node.
    evm: { rpcUrls: [chains.evm.rpcUrl] },
    solana: { rpcUrls: [chains.solana.rpcUrl] },
    sections: { log: { level: 'info', format: 'json' } },
  })
  const api = await startApi(stage as never)
  const store = await openStore(config, chains.env, newSellerWallets(chains))
  await startGateway(stage as never, config, chains.env)
  const url = await store.addLink({ url: api.url, slug: 'paid', price: '0.01' })
  const buyer = await newBuyer(chains, chain)

  const msOfCalls: number[] = []
  for (let n = 0; n < warmUp + calls; n++) {
    const payment = await buyer.sign(url)
    const startedMs = performance.now()
    const { status, text } = await present(url, payment)
    const tookMs = performance.now() - startedMs
    if (status !== 200)
      throw new Error(`Expected a paid call to be answered with 200, got ${status}: ${text}`)
    if (n >= warmUp) msOfCalls.push(tookMs)
  }
  console.log(JSON.stringify({ msOfCalls }))
} finally {
  for (const step of undo.reverse()) await step()
}
