import fc from 'fast-check'
import t from 'tap'
import { encodeAbiParameters, encodeFunctionData, encodeFunctionResult, multicall3Abi } from 'viem'
import { readDeployment } from '../check/transferCalls.ts'
import type { Hex } from '../rpc/nodes.ts'
import { aggregate3, callsIn, multicall3, resultsIn } from './multicall.ts'

const bytes = (minLength: number, maxLength = minLength) =>
  fc.uint8Array({ minLength, maxLength }).map((all): Hex => `0x${Buffer.from(all).toString('hex')}`)
const data = fc.oneof(bytes(0, 100), bytes(0), bytes(31), bytes(32), bytes(33))
const calls = fc.array(fc.record({ to: bytes(20), data, mustSucceed: fc.boolean() }), { maxLength: 5 })

t.test('several calls in one are written as viem writes them, and read again', (t) => {
  const run = fc.property(calls, (inside) => {
    const made = aggregate3(inside)
    const args = inside.map(({ to, data, mustSucceed }) => ({
      target: to,
      allowFailure: !mustSucceed,
      callData: data,
    }))
    return (
      made.to === multicall3 &&
      made.data === encodeFunctionData({ abi: multicall3Abi, functionName: 'aggregate3', args: [args] }) &&
      JSON.stringify(callsIn(made.data)) === JSON.stringify(inside.map(({ to, data }) => ({ to, data })))
    )
  })
  fc.assert(run, { examples: [[[]]] })
  t.end()
})

t.test('what became of each is read as viem writes it', (t) => {
  const results = fc.array(fc.record({ success: fc.boolean(), data }), { maxLength: 5 })
  const run = fc.property(results, (all) => {
    const result = all.map(({ success, data: returnData }) => ({ success, returnData }))
    const response = encodeFunctionResult({ abi: multicall3Abi, functionName: 'aggregate3', result })
    return JSON.stringify(resultsIn(response)) === JSON.stringify(all)
  })
  fc.assert(run)
  t.end()
})

t.test('bytes of any other kind, and such as point anywhere, are refused and take no time', (t) => {
  const word = (value: bigint) => value.toString(16).padStart(64, '0')
  const huge = 2n ** 256n - 1n
  const selector = aggregate3([]).data.slice(0, 10)
  for (const words of [
    ...[[], [huge], [32n, huge], [32n, 2n ** 40n], [32n, 1_000_000n], [32n, 1n, huge], [0n], [32n]],
    [32n, 10_000n, ...Array<bigint>(9_000).fill(32n)],
  ]) {
    const text = words.map(word).join('')
    t.throws(() => callsIn(selector + text), `calls ${words.slice(0, 3).join(' ')}`)
    t.throws(() => resultsIn(`0x${text}`), `results ${words.slice(0, 3).join(' ')}`)
    t.equal(readDeployment(`0x${text}${'6492'.repeat(16)}`), undefined)
  }
  t.throws(() => callsIn('0x'))
  t.throws(() => callsIn(`0x12345678${aggregate3([]).data.slice(10)}`), 'another function')
  fc.assert(
    fc.property(bytes(0, 400), (any) => {
      try {
        callsIn(selector + any.slice(2))
      } catch {}
      readDeployment(`${any}${'6492'.repeat(16)}`)
      return true
    }),
  )
  t.end()
})

t.test('a signature of a wallet that is not there yet is read as ERC-6492 wraps it', (t) => {
  const run = fc.property(bytes(20), data, data, (factory, calldata, innerSignature) => {
    const parameters = [{ type: 'address' }, { type: 'bytes' }, { type: 'bytes' }] as const
    const wrapped = encodeAbiParameters(parameters, [factory, calldata, innerSignature]) + '6492'.repeat(16)
    return JSON.stringify(readDeployment(wrapped)) === JSON.stringify({ factory, calldata, innerSignature })
  })
  fc.assert(run)
  t.end()
})
