import type { Exchange, GatewayPlugin, Reply } from 'tollgate/plugin'
import { options } from './options.ts'

/** Refuses buyers by wallet, before anything is claimed or charged. */
export default {
  name: 'deny-wallets',
  api: 1,
  options,
  needs: ['log'],
  // `payment` is set after x402 has checked it. If the plugins are in an order in which it is not set, the
  // gateway does not start.
  slots: { claim: { reads: ['payment'] } },
  setup({ wallets }, { ports: { log } }) {
    const denied = new Set(wallets.map((wallet) => wallet.toLowerCase()))
    return {
      // A free link has no buyer: the plugin is not in its pipeline, and its calls cost nothing extra.
      route({ isPaid }) {
        if (!isPaid || denied.size === 0) return undefined
        return {
          claim(x: Exchange) {
            const { payer } = x.payment!.identity
            if (!denied.has(payer.toLowerCase())) return undefined
            log.info({ payer, linkId: x.link.id }, 'refused a buyer')
            x.errorCode = 'buyer_refused'
            return refusal
          },
        }
      },
    }
  },
} satisfies GatewayPlugin<typeof options, 'log'>

const body = JSON.stringify({
  success: false,
  error: { code: 'buyer_refused', message: 'This seller does not sell to your wallet.', retryable: false },
})

/** Created once and never changed: every refused buyer gets the same response. */
const refusal: Reply = {
  status: 403,
  headers: ['Content-Type', 'application/json; charset=utf-8', 'Content-Length', String(body.length)],
  body,
}
