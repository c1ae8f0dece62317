import { PublicKey } from '@solana/web3.js'
import fc from 'fast-check'
import t from 'tap'
import { associatedTokenProgram, tokenProgramBytes } from './addresses.ts'
import { associatedTokenAddress, isOnCurve } from './tokenAccount.ts'

const key = fc.uint8Array({ minLength: 32, maxLength: 32 })

t.test('it is the address that @solana/web3.js derives', async () => {
  fc.assert(
    fc.property(key, key, fc.constantFrom(...Object.values(tokenProgramBytes)), (owner, mint, program) => {
      const [expected] = PublicKey.findProgramAddressSync(
        [owner, program, mint],
        new PublicKey(associatedTokenProgram),
      )
      return expected.equals(new PublicKey(associatedTokenAddress(owner, program, mint)))
    }),
    { numRuns: 500 },
  )
})

t.test('a key lies on the curve exactly when @solana/web3.js says so', async (t) => {
  let on = 0
  fc.assert(
    fc.property(key, (bytes) => {
      const response = isOnCurve(bytes)
      if (response) on++
      return response === PublicKey.isOnCurve(bytes)
    }),
    { numRuns: 2_000 },
  )
  t.ok(on > 500 && on < 1_500, `${on} of 2000`)
})
