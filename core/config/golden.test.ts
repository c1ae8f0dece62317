import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { base58 } from '@scure/base'
import t from 'tap'
import type { OptionsSchema } from '../plugin/options.ts'
import { isConfigError, renderProblems } from './check/problem.ts'
import { parseConfig } from './loadConfig.ts'

// Each file is a configuration, a line of dashes, and the loader's messages about it. After a deliberate
// change of messages: UPDATE_GOLDEN=1 node core/config/golden.test.ts, and read the diff.
const folder = join(import.meta.dirname, 'golden')
const divider = '\n--------\n'

/** Test vector 1 of RFC 8032, section 7.1: seed and public key. */
const svmKey = Buffer.from(
  '9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a',
  'hex',
)
const otherHalf = Buffer.concat([svmKey.subarray(0, 32), Buffer.alloc(32, 7)])
const env = {
  PORT: '9090',
  BAD_PORT: 'hunter2-port',
  FLAG: 'true',
  EMPTY: '',
  EVM_KEY: `0x${'ab'.repeat(32)}`,
  BAD_KEY: 'hunter2-key',
  SECOND_KEY: `0x${'cd'.repeat(32)}`,
  // The same Solana key in both of its forms.
  SVM_KEY: base58.encode(svmKey),
  SVM_KEY_FILE: JSON.stringify([...svmKey]),
  ZERO_KEY: `0x${'0'.repeat(64)}`,
  // The order of the curve, the first number above the keys, and the last key.
  ORDER_KEY: '0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141',
  LAST_KEY: '0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364140',
  SVM_SEED: base58.encode(svmKey.subarray(0, 32)),
  SVM_SHORT_FILE: JSON.stringify([...svmKey.subarray(0, 63)]),
  SVM_OTHER_HALF: base58.encode(otherHalf),
  SVM_OTHER_HALF_FILE: JSON.stringify([...otherHalf]),
  REDIS_URL: 'hunter2://redis',
  RPC_URL: 'https://rpc.example/v2/hunter2',
  PLUGIN: 'hunter2-plugin',
  HOST_NAME: 'hunter2.example',
  NETWORK: 'eip155:424242',
  SHORT: '31337',
  LONG: '31338',
  WORKERS: '7',
}

const rateLimit = {
  type: 'object',
  additionalProperties: false,
  required: ['points'],
  properties: {
    points: { type: 'integer', minimum: 1, description: 'Requests one key may make in a window.' },
    windowMs: {
      type: 'integer',
      minimum: 1,
      default: 60_000,
      description: 'Length of a window, in milliseconds.',
    },
    keyBy: { enum: ['ip', 'link'], default: 'ip', description: 'Whose bucket a request draws from.' },
    strict: { type: 'boolean', default: false, description: 'Count refusals too.' },
    token: { type: 'string', minLength: 30, writeOnly: true, description: 'A secret.' },
  },
} as const satisfies OptionsSchema

const plugins = {
  names: ['rate-limit'],
  load(use: string) {
    if (use === 'rate-limit') return { name: use, options: rateLimit as OptionsSchema }
    throw new Error(`Cannot load plugin ${JSON.stringify(use)}.`)
  },
}

async function outcomeOf(file: string, text: string): Promise<string> {
  try {
    const { config, plugins: loaded, warnings } = await parseConfig(text, { file, env, plugins })
    const shown = { ...config, plugins: loaded.map(({ options }) => options) }
    const { publicUrl, gateway, networks } = shown
    const head = warnings.length === 0 ? 'No problems.' : renderProblems(warnings, text)
    const values = { publicUrl, port: gateway.port, networks: Object.keys(networks), plugins: shown.plugins }
    return `${head}\n\n${JSON.stringify(values, null, 2)}`
  } catch (error) {
    if (isConfigError(error)) return error.message
    throw error
  }
}

const files = readdirSync(folder).filter((name) => name.endsWith('.golden'))
t.ok(files.length > 10, 'the folder of examples was found')

for (const golden of files) {
  const name = basename(golden, '.golden')
  t.test(`${name} is answered as written down`, async (t) => {
    const path = join(folder, golden)
    const [text, expected] = readFileSync(path, 'utf8').split(divider)
    const outcome = await outcomeOf(name, text!)
    if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(path, `${text}${divider}${outcome}\n`)
    else t.equal(`${outcome}\n`, expected)
    t.notMatch(outcome, /hunter2/, 'no value of the environment is in the answer')
    t.notMatch(outcome, /3133[78]|424242/, 'nor a number of it')
    t.notMatch(outcome, /abababab/, 'no key is in the answer')
    t.notMatch(outcome, /written-secret/, 'nor another secret of the file')
  })
}
