import { gatewayPlugin } from '../../core/plugin/gateway.ts'
import { createChallenges } from './challenge.ts'
import { offersOf } from './offers.ts'
import { options } from './options.ts'
import { payHook } from './pay.ts'
import { payableChallenges } from './payable.ts'
import { resourceOf } from './resource.ts'
import { settleHook, verifyHook } from './settle.ts'

/**
 * Charges for paid links by x402 (`exact`): answers the 402, checks the payment that comes, settles it. A free link does
 * not have it in its program.
 */
export default gatewayPlugin({
  name: 'x402',
  api: 1,
  options,
  needs: ['chains', 'payments', 'service', 'log'],
  slots: {
    pay: { writes: ['payment'] },
    verify: { reads: ['payment', 'claim'] },
    settle: { reads: ['payment', 'claim'], writes: ['settlement'] },
  },
  setup({ maxTimeoutSeconds, acceptV1, legacyBody }, { ports: { chains, payments, service, log } }) {
    return {
      route({ link, isPaid }) {
        if (!isPaid) return
        const offers = offersOf(link, chains, maxTimeoutSeconds)
        const resource = resourceOf(link, service, offers)
        const challenges = payableChallenges(offers, (payable) =>
          createChallenges(link, payable, resource, legacyBody),
        )
        return {
          pay: payHook(offers, challenges, acceptV1),
          verify: verifyHook(),
          settle: settleHook(payments, log, challenges),
        }
      },
    }
  },
})
