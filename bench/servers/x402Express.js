// @x402/express as its README shows it. The facilitator is in this process: it verifies as the reference does, with
// viem's verifyTypedData, and settles at once. The seller's answer comes from memory, so that the peer forwards nothing.
import { x402ResourceServer } from '@x402/core/server'
import { ExactEvmScheme } from '@x402/evm/exact/server'
import { paymentMiddleware } from '@x402/express'
import express from 'express'
import { verifyTypedData } from 'viem'
import { asset, cannedJson, domain, network, payTo } from './offer.ts'

const types = {
  TransferWithAuthorization: [
    { name: 'from', type: 'address' },
    { name: 'to', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'validAfter', type: 'uint256' },
    { name: 'validBefore', type: 'uint256' },
    { name: 'nonce', type: 'bytes32' },
  ],
}

const facilitator = {
  async verify({ payload: { authorization, signature } }) {
    const isValid = await verifyTypedData({
      address: authorization.from,
      domain: { ...domain, verifyingContract: asset },
      types,
      primaryType: 'TransferWithAuthorization',
      message: {
        ...authorization,
        value: BigInt(authorization.value),
        validAfter: BigInt(authorization.validAfter),
        validBefore: BigInt(authorization.validBefore),
      },
      signature,
    })
    return { isValid, payer: authorization.from }
  },
  async settle({ payload: { authorization } }) {
    return { success: true, transaction: authorization.nonce, network, payer: authorization.from }
  },
  getSupported: async () => ({
    kinds: [{ x402Version: 2, scheme: 'exact', network }],
    extensions: [],
    signers: {},
  }),
}

const server = new x402ResourceServer(facilitator).register(network, new ExactEvmScheme())
const app = express()
app.use(
  paymentMiddleware(
    {
      'GET /paid': {
        accepts: { scheme: 'exact', price: '$0.10', network, payTo },
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
