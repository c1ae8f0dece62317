import { x402ExactPermit2ProxyABI, x402UptoPermit2ProxyABI } from '@x402/evm'
import fc from 'fast-check'
import t from 'tap'
import { encodeFunctionData, getAddress, type Hex } from 'viem'
import { isUsedIn, permit2Proxies, readSettleCall, settleCall } from './permit2.ts'

const hex = (bytes: number) =>
  fc
    .uint8Array({ minLength: bytes, maxLength: bytes })
    .map((array): Hex => `0x${Buffer.from(array).toString('hex')}`)
const uint256 = fc.bigInt({ min: 0n, max: 2n ** 256n - 1n })
const payment = fc.record({
  token: hex(20),
  value: uint256,
  nonce: uint256,
  validBefore: uint256,
  from: hex(20),
  to: hex(20),
  facilitator: fc.option(hex(20)),
  validAfter: uint256,
  signature: fc.oneof(hex(65), hex(200)),
})
const allowance = fc.option(fc.record({ deadline: uint256, signature: hex(65) }), { nil: undefined })

t.test('the settling call is the one that the official ABI encodes, and each is read back', async () => {
  fc.assert(
    fc.property(payment, uint256, allowance, (given, amount, permit) => {
      const { token, from, to, facilitator, signature } = given
      const ours = settleCall(
        {
          ...given,
          value: String(given.value),
          nonce: String(given.nonce),
          validBefore: String(given.validBefore),
          validAfter: String(given.validAfter),
          allowance: permit && { nonce: '0', deadline: String(permit.deadline), signature: permit.signature },
        },
        amount,
      )
      const permitted = {
        permitted: { token: getAddress(token), amount: given.value },
        nonce: given.nonce,
        deadline: given.validBefore,
      }
      const permit2612 = permit && {
        value: given.value,
        deadline: permit.deadline,
        r: permit.signature.slice(0, 66) as Hex,
        s: `0x${permit.signature.slice(66, 130)}` as Hex,
        v: Number(`0x${permit.signature.slice(130)}`),
      }
      const witness = { to: getAddress(to), validAfter: given.validAfter }
      const theirs =
        facilitator === null
          ? encodeFunctionData({
              abi: x402ExactPermit2ProxyABI,
              functionName: permit2612 ? 'settleWithPermit' : 'settle',
              args: [
                ...(permit2612 ? [permit2612] : []),
                permitted,
                getAddress(from),
                witness,
                signature,
              ] as never,
            })
          : encodeFunctionData({
              abi: x402UptoPermit2ProxyABI,
              functionName: permit2612 ? 'settleWithPermit' : 'settle',
              args: [
                ...(permit2612 ? [permit2612] : []),
                permitted,
                amount,
                getAddress(from),
                { ...witness, facilitator: getAddress(facilitator) },
                signature,
              ] as never,
            })
      const read = readSettleCall({ to: ours.to.toUpperCase().replace('0X', '0x'), data: theirs })
      return (
        ours.data === theirs &&
        ours.to === permit2Proxies[facilitator === null ? 'exact' : 'upto'] &&
        read?.from === from &&
        read.to === to &&
        read.token === token &&
        read.nonce === String(given.nonce) &&
        read.amountAtomic === (facilitator === null ? given.value : amount)
      )
    }),
  )
})

t.test('a call of another contract, or another call of the proxy, is no settlement', async (t) => {
  const none = { to: permit2Proxies.upto, data: '0xff11e7b4' }
  t.equal(readSettleCall(none), undefined, 'it is cut off')
  t.equal(
    readSettleCall({ ...none, data: `0x13cd3b53${'00'.repeat(400)}` }),
    undefined,
    'a call of the other proxy',
  )
  t.equal(readSettleCall({ to: `0x${'1'.repeat(40)}`, data: `0xff11e7b4${'00'.repeat(400)}` }), undefined)
  t.equal(readSettleCall({ ...none, data: `0xdeadbeef${'00'.repeat(400)}` }), undefined)
})

t.test('each nonce has its own bit', async (t) => {
  t.ok(isUsedIn(0b100n, '2'))
  t.notOk(isUsedIn(0b100n, '1'))
  t.ok(isUsedIn(1n, String(2n ** 255n)))
})
