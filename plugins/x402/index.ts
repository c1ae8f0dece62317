import { priceFaults } from '../../core/payments/payoutFaults.ts'
import { gatewayPlugin } from '../../core/plugin/gateway.ts'
import { createChallenges } from '../../core/x402/challenge.ts'
import { offersOf } from '../../core/x402/offers.ts'
import { payableChallenges } from '../../core/x402/payable.ts'
import { extensionsOf } from './extensions.ts'
import { options } from './options.ts'
import { payHook, repeatsOnly, settleHook, verifyHook } from './pay.ts'
import { resourceOf } from './resource.ts'

/**
 * Charges for paid links by x402 (`exact`): answers the 402, checks the payment that comes, settles it. A free link does
 * not have it in its program.
 */
export default gatewayPlugin({
  name: 'x402',
  api: 1,
  options,
  needs: ['chains', 'payments', 'service'],
  slots: {
    pay: { writes: ['payment'] },
    verify: { reads: ['payment', 'claim'], mayRead: ['settlement'] },
    settle: { reads: ['payment', 'claim'], mayRead: ['answer'], writes: ['settlement'] },
    log: { mayRead: ['payment'] },
  },
  setup({ maxTimeoutSeconds, acceptV1, legacyBody }, { ports: { chains, payments, service } }) {
    return {
      route({ link, isPaid }) {
        if (!isPaid) return
        const all = offersOf(link, chains, maxTimeoutSeconds)
        const offers = all.filter(({ isClosed }) => !isClosed)
        const resource = resourceOf(link, service, offers)
        const extensions = extensionsOf(link, resource, offers)
        const challenges = payableChallenges(
          offers,
          (payable) => createChallenges(link, payable, resource, extensions, legacyBody),
          priceFaults(chains, link.payout, link.price),
        )
        const pay = payHook(all, challenges, payments, acceptV1)
        return {
          pay: link.isActive ? pay : repeatsOnly(pay),
          verify: verifyHook(payments),
          settle: settleHook(payments, challenges),
        }
      },
    }
  },
})
