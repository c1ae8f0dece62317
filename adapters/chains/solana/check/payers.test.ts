import { Keypair } from '@solana/web3.js'
import t from 'tap'
import { builtInAssets } from '../../../../core/domain/asset.ts'
import { startLocalSolana } from '../../../../localnet/solana/startLocalSolana.ts'
import { createSolanaPayers } from './payers.ts'

const devnetUsdc = builtInAssets.find(({ network }) => network === 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1')!

t.test('a payer is told what it has and a block hash that the chain takes', async (t) => {
  const chain = await startLocalSolana({ slotMs: 50 })
  t.teardown(() => chain.close())
  const payers = createSolanaPayers({ network: devnetUsdc.network, rpcUrls: [chain.rpcUrl] })
  const owner = Keypair.generate().publicKey.toBase58()
  t.equal((await payers.read(devnetUsdc, owner))?.balanceAtomic, 0n, 'without an account')
  chain.mintUsdc(owner, 1_234_567n)
  const state = await payers.read(devnetUsdc, owner)
  t.equal(state?.balanceAtomic, 1_234_567n)
  const response = await fetch(chain.rpcUrl, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'isBlockhashValid',
      params: [state?.recentBlockhash, { commitment: 'processed' }],
    }),
  })
  t.match(await response.json(), { result: { value: true } })
})

t.test('where no node answers, nothing is said of the payer, and nothing is thrown', async (t) => {
  const payers = createSolanaPayers({ network: devnetUsdc.network, rpcUrls: ['http://127.0.0.1:9'] })
  t.equal(await payers.read(devnetUsdc, Keypair.generate().publicKey.toBase58()), undefined)
})
