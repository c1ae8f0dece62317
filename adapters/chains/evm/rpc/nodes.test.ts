import t from 'tap'
import { RpcRefused } from '../../../../core/rpc/post.ts'
import { isRevert } from './nodes.ts'

/** Errors of go-ethereum (core/vm/errors.go), and of revm as anvil and reth send them. */
const stopped = [
  'execution reverted',
  'out of gas',
  'max call depth exceeded',
  'invalid jump destination',
  'write protection',
  'return data out of bounds',
  'gas uint64 overflow',
  'stack underflow (0 <=> 1)',
  'stack limit reached 1024 (1023)',
  'invalid opcode: INVALID',
  'EVM error: InvalidFEOpcode',
  'EVM error: OpcodeNotFound',
  'EVM error InvalidJump',
  'EVM error MemoryOOG',
  'EVM error OutOfOffset',
  'EVM error StateChangeDuringStaticCall',
  'EVM error: OutOfGas(MemoryLimit)',
]
const notRun = [
  'header not found',
  'rate limit exceeded',
  'request to Google Cloud timed out',
  'block range is out of bounds',
  'missing trie node 5f2a',
  'EVM error: database error',
  'method handler crashed',
]

t.test('a call that the EVM stopped differs from a call that the node could not run', async (t) => {
  for (const message of stopped) t.ok(isRevert(new RpcRefused(-32_000, message)), message)
  for (const message of notRun) t.notOk(isRevert(new RpcRefused(-32_000, message)), message)
})
