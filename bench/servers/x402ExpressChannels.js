// @x402/express with the channel server of its package, whose storage is memory. The facilitator is in this process. The package
// asks it about a channel once in five minutes, and checks the vouchers itself. The seller's answer comes from memory.
import { x402ResourceServer } from '@x402/core/server'
import { BatchSettlementEvmScheme } from '@x402/evm/batch-settlement/server'
import { paymentMiddleware } from '@x402/express'
import express from 'express'
import { privateKeyToAccount } from 'viem/accounts'
import { cannedJson, network, payTo } from './offer.ts'

const facilitator = {
  async verify({ payload: { channelConfig } }) {
    const extra = { balance: '1000000000000', totalClaimed: '0', withdrawRequestedAt: 0, refundNonce: '0' }
    return { isValid: true, payer: channelConfig.payer, extra }
  },
  async settle() {
    throw new Error('A voucher is not settled.')
  },
  getSupported: async () => ({
    kinds: [{ x402Version: 2, scheme: 'batch-settlement', network }],
    extensions: [],
    signers: {},
  }),
}

const receiverAuthorizerSigner = privateKeyToAccount(`0x${'2'.repeat(64)}`)
const scheme = new BatchSettlementEvmScheme(payTo, { receiverAuthorizerSigner })
const server = new x402ResourceServer(facilitator).register(network, scheme)
const app = express()
app.use(
  paymentMiddleware(
    {
      'GET /paid': {
        accepts: { scheme: 'batch-settlement', price: '$0.01', network, payTo },
        description: 'Answers with fixed bytes.',
      },
    },
    server,
  ),
)
const answer = JSON.parse(cannedJson(1_024))
app.get('/paid', (_req, res) => void res.json(answer))
const listener = app.listen(0, '127.0.0.1', () => {
  console.log(JSON.stringify({ port: listener.address().port }))
})
