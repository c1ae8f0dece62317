import t from 'tap'
import { parseTransaction } from 'viem'
import { parseConfig } from '../../../core/config/loadConfig.ts'
import { facilitatorChoice } from '../../../core/config/schema.ts'
import { feeDefaultsOf, knownNetworks } from '../../../core/domain/network.ts'
import type { SettlementAttempt } from '../../../core/domain/payment.ts'
import { systemClock } from '../../../core/ports/clock.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { network, remember, startSettler, usdc } from '../../../test/helpers/chains/evm/settler.ts'
import { EvmNetwork } from './network.ts'
import type { Hex } from './rpc/nodes.ts'

const plugins = {
  load: (): never => {
    throw new Error('no plugins here')
  },
}

for (const [what, option, tipWei] of [
  ['the network’s default', '', 1_000_000n],
  ['what the operator sets', 'priorityFeePerGasGwei: 0.5', 500_000_000n],
] as const) {
  t.test(`the tip of a settlement is ${what}`, async (t) => {
    const { chain, pay, terms, settlingKey } = await startSettler(t)
    const text = `
publicUrl: https://a.example
networks:
  ${network}: { rpcUrls: ["${chain.rpcUrl}"], facilitator: { privateKey: "${settlingKey}", ${option} } }
`
    const { config } = await parseConfig(text, { file: 'a.yaml', env: {}, plugins })
    const own = config.networks[network]!
    const choice = facilitatorChoice(own.facilitator)
    if (choice.kind !== 'embedded') return t.fail(choice.kind)
    const opened = new EvmNetwork({
      network,
      config: own,
      assets: [usdc],
      clock: systemClock,
      log: silentLog,
    })
    const settler = await opened.settler(choice)
    t.teardown(() => settler.close())
    await settler.start([])
    const { payment, identity } = await pay()
    const attempts: SettlementAttempt[] = []
    t.match(await settler.settle(payment, terms, identity, remember(attempts)), { status: 'settled' })
    t.equal(parseTransaction(attempts[0]!.bytes as Hex).maxPriorityFeePerGas, tipWei)
  })
}

t.test(
  'every network’s tip fits into its highest fee, and Polygon’s is one that validators accept',
  async (t) => {
    for (const { id } of knownNetworks) {
      const { maxFeePerGasGwei, priorityFeePerGasGwei } = feeDefaultsOf(id)
      t.ok(priorityFeePerGasGwei <= maxFeePerGasGwei / 2, id)
    }
    t.ok(feeDefaultsOf('eip155:137').priorityFeePerGasGwei >= 25)
    t.same(feeDefaultsOf('eip155:999'), feeDefaultsOf('eip155:8453'))
  },
)
