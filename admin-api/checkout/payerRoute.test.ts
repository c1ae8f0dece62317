import t from 'tap'
import { builtInAssets } from '../../core/domain/asset.ts'
import type { PayerState, Payers } from '../../core/ports/chains/payers.ts'
import { startAdmin } from '../testing/startAdmin.ts'
import { solanaWallet } from '../testing/wallets.ts'

const [usdc, evmUsdc] = ['solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1', 'eip155:84532'].map(
  (network) => builtInAssets.find((asset) => asset.network === network)!,
) as [(typeof builtInAssets)[number], (typeof builtInAssets)[number]]
const { address } = solanaWallet()
const asking = (network: string, asset: string, wallet: string) =>
  `/api/payer?network=${network}&asset=${asset}&address=${wallet}`

t.test('a payer gets what the chain says of its wallet', async (t) => {
  const asked: unknown[] = []
  let state: PayerState | undefined = { recentBlockhash: address, balanceAtomic: 2_500_000n }
  const payers: Payers = {
    async look(asset, wallet) {
      asked.push([asset.address, wallet])
      return state
    },
  }
  const { call } = await startAdmin(t, { payers, assets: builtInAssets })
  const path = asking(usdc.network, usdc.address, address)
  t.match(await call('GET', path), {
    status: 200,
    body: { data: { recentBlockhash: address, balanceAtomic: '2500000' } },
  })
  t.strictSame(asked, [[usdc.address, address]])
  state = undefined
  t.match(await call('GET', path), { status: 503, body: { error: { code: 'CHAIN_UNAVAILABLE' } } })
})

t.test('no node is asked for what nobody can pay with', async (t) => {
  const payers: Payers = { look: async () => t.fail('the chain was asked') as never }
  const { call } = await startAdmin(t, { payers, assets: builtInAssets })
  for (const [path, code] of [
    [asking(usdc.network, address, address), 'VALIDATION_ERROR'],
    [asking(evmUsdc.network, evmUsdc.address, address), 'VALIDATION_ERROR'],
    [asking(usdc.network, usdc.address, '0x0'), 'INVALID_ADDRESS'],
    ['/api/payer', 'VALIDATION_ERROR'],
  ] as const) {
    t.match(await call('GET', path), { status: 400, body: { error: { code } } }, path)
  }
})
