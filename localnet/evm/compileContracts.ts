import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const SOURCES = new URL('./contracts/', import.meta.url)
const ARTEFACTS = new URL('./artefacts/', import.meta.url)
/** Contracts that a local chain installs. The other sources are parts of these. */
const WANTED = [
  'TestUSDC',
  'SilentUSDC',
  'Multicall3',
  'SmartWallet',
  'SmartWalletFactory',
  'Permit2',
  'ExactPermit2Proxy',
  'UptoPermit2Proxy',
  'BatchSettlement',
  'Erc3009DepositCollector',
  'Permit2DepositCollector',
]

/** A compiled contract, as stored beside its source. */
export type Artefact = {
  contractName: string
  compiler: string
  /** SHA-256 over the names and texts of all source files. It detects a changed source whose artefact was not compiled again. */
  sourcesSha256: string
  abi: unknown[]
  deployedBytecode: `0x${string}`
  /** Storage slot of each state variable. The chain writes balances to these slots. */
  storageSlots: Record<string, number>
}

type SolcOutput = {
  errors?: { severity: string; formattedMessage: string }[]
  contracts: Record<
    string,
    Record<
      string,
      {
        abi: unknown[]
        evm: { deployedBytecode: { object: string } }
        storageLayout: { storage: { label: string; slot: string; offset: number }[] }
      }
    >
  >
}

/**
 * Compiles the local chain's contracts with the `solc` of node_modules, offline. Returns the artefacts by name.
 *
 * If this module is run as a program (`node localnet/evm/compileContracts.ts`), it writes the artefacts.
 *
 * @throws {Error} with the compiler's message if a source does not compile
 */
export function compileContracts(): Map<string, Artefact> {
  const solc = createRequire(import.meta.url)('solc') as { compile(input: string): string; version(): string }
  const names = readdirSync(SOURCES)
    .filter((name) => name.endsWith('.sol'))
    .sort()
  const sources = Object.fromEntries(
    names.map((name) => [name, { content: readFileSync(new URL(name, SOURCES), 'utf8') }]),
  )
  const output = JSON.parse(
    solc.compile(JSON.stringify({ language: 'Solidity', sources, settings })),
  ) as SolcOutput
  const failures = (output.errors ?? []).filter((error) => error.severity !== 'info')
  if (failures.length > 0) throw new Error(failures.map((error) => error.formattedMessage).join('\n'))

  const sourcesSha256 = createHash('sha256').update(JSON.stringify(sources)).digest('hex')
  const artefacts = new Map<string, Artefact>()
  for (const file of Object.values(output.contracts)) {
    for (const [contractName, contract] of Object.entries(file)) {
      if (!WANTED.includes(contractName)) continue
      artefacts.set(contractName, {
        contractName,
        compiler: solc.version(),
        sourcesSha256,
        abi: contract.abi,
        deployedBytecode: `0x${contract.evm.deployedBytecode.object}`,
        storageSlots: Object.fromEntries(
          contract.storageLayout.storage.map(({ label, slot }) => [label, Number(slot)]),
        ),
      })
    }
  }
  return artefacts
}

const settings = {
  // Without a metadata hash, the bytecode depends only on the code, not on comments or paths.
  metadata: { bytecodeHash: 'none', appendCBOR: false },
  optimizer: { enabled: true, runs: 200 },
  evmVersion: 'shanghai',
  outputSelection: { '*': { '*': ['abi', 'evm.deployedBytecode.object', 'storageLayout'] } },
}

if (import.meta.main) {
  for (const [name, artefact] of compileContracts()) {
    writeFileSync(new URL(`${name}.json`, ARTEFACTS), `${JSON.stringify(artefact, null, 2)}\n`)
  }
}
