import { base58 } from '@scure/base'
import { Keypair } from '@solana/web3.js'
import t from 'tap'
import { addressOf, realPayment, termsOf, usdc } from './payments.fixture.ts'
import { staged } from './stage.fixture.ts'

t.test(
  'a seller who never answers, paid by himself, does not take up all that a fee payer can pay for',
  async (t) => {
    const stage = await staged(t)
    const feePayer = Keypair.generate()
    // What it has to keep, and some ten fees.
    stage.chain.airdrop(addressOf(feePayer), 1_090_880n)
    const settler = stage.another({ privateKeys: [base58.encode(feePayer.secretKey)] })
    await settler.start([])
    const own = termsOf({ ...stage.cast, feePayer }, usdc)
    const verify = async (storeId: string) => {
      stage.chain.advanceSlots(1)
      const payment = await realPayment(stage.cast.payer, own, stage.chain.rpcUrl)
      const checked = await settler.check(payment, own)
      if (!checked.ok) throw new Error(checked.message)
      const { identity } = checked
      return { payment, identity, verified: await settler.verify(payment, own, identity, { storeId }) }
    }
    let held = 0
    while ((await verify('silent')).verified.ok) held++
    t.ok(held > 0 && held < 20, `${held} places of 1024`)
    // For as long as nobody gives way.
    stage.ahead += 2_100
    const { payment, identity, verified } = await verify('neighbour')
    t.strictSame(verified.ok || verified.reason, true, 'a payment of the neighbour')
    if (!verified.ok) return
    const outcome = await settler.settle(payment, own, identity, async () => true, verified.hold)
    t.match(outcome, { status: 'settled' })
  },
)
