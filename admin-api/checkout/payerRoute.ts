import type { FastifyInstance } from 'fastify'
import { canonicalAddress } from '../../core/domain/address.ts'
import { familyOf } from '../../core/domain/network.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { ok } from '../http/envelope.ts'
import { limitPerClient, minuteMs, refusePagesElsewhere } from '../http/rateLimits.ts'
import { answers, exactly, success, text } from '../schema/answers.ts'
import { validationError } from '../schema/validationError.ts'

/** One a payment, and a few more for who chooses between wallets. */
const LOOKS_PER_MINUTE = 60

interface Query {
  readonly network: string
  readonly asset: string
  readonly address: string
}

/**
 * `GET /api/payer`: what a Solana wallet in a browser has to know before it signs. The wallet itself can't be asked, and a
 * node's address is not for everybody.
 */
export function payerRoute(app: FastifyInstance, api: Api): void {
  app.get<{ Querystring: Query }>(
    '/api/payer',
    {
      onRequest: [
        async (request) => refusePagesElsewhere(api, request),
        limitPerClient(api, 'payer', LOOKS_PER_MINUTE, minuteMs),
      ],
      schema: {
        summary: 'What a Solana wallet needs to pay',
        description: 'A recent block hash, and what the wallet has of a token that this service takes.',
        querystring: {
          type: 'object',
          required: ['network', 'asset', 'address'],
          properties: {
            network: { type: 'string', description: 'CAIP-2, `solana:…`.' },
            asset: { type: 'string', description: 'Mint of the token.' },
            address: { type: 'string', description: 'The wallet, base58.' },
          },
        },
        response: answers(
          {
            200: success(exactly({ recentBlockhash: text(), balanceAtomic: text('In the smallest unit.') })),
          },
          400,
          403,
          429,
          503,
        ),
      },
    },
    async ({ query }) => {
      const { network, address } = query
      const asset = api.assets.find((one) => one.network === network && one.address === query.asset)
      if (asset === undefined || familyOf(network) !== 'solana')
        throw validationError([
          { path: 'asset', code: 'not_taken', message: 'Expected a Solana token that this service takes.' },
        ])
      if (canonicalAddress('solana', address) === undefined)
        throw new TollgateError('INVALID_ADDRESS', 'Expected a Solana address: 32 bytes in base58.')
      const state = await api.payers.look(asset, address)
      if (state === undefined)
        throw new TollgateError('CHAIN_UNAVAILABLE', 'No node of Solana answers now. Try again in a moment.')
      return ok({ recentBlockhash: state.recentBlockhash, balanceAtomic: String(state.balanceAtomic) })
    },
  )
}
