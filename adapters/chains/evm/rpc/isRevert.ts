import type { RpcRefused } from '../../../../core/rpc/rpcError.ts'

/** True when the EVM itself stopped the call; false when the node could not run it. */
export const isRevert = ({ code, data, message }: RpcRefused): boolean =>
  code === 3 || typeof data === 'string' || revertWords.test(message)

const revertWords =
  /revert|out ?of ?gas|intrinsic gas|invalid opcode|stack (?:under|over)flow|gas required exceeds/i
