import t from 'tap'
import type { OptionsSchema } from '../plugin/options.ts'
import { parseConfig } from './load.ts'
import { hideSecrets } from './problem.ts'
import { redactConfig } from './redact.ts'

const options = {
  type: 'object',
  additionalProperties: false,
  properties: {
    token: { type: 'string', writeOnly: true, description: 'A secret.' },
    label: { type: 'string', description: 'Not one.' },
  },
} as const satisfies OptionsSchema

const text = `
publicUrl: https://\${HOST}
gateway: { port: "\${PORT}" }
counters: { use: redis, url: "redis://:sesame@redis.example:6379" }
networks:
  eip155:8453:
    rpcUrls: ["https://rpc.example/v2/sesame", "https://open.example"]
    facilitator: { privateKey: "\${KEY}" }
  eip155:84532:
    facilitator: { url: "https://facilitator.example", headers: { authorization: "Bearer sesame" } }
plugins:
  - use: echo
    with: { token: sesame, label: "\${LABEL}" }
`

t.test('what is printed of a configuration has no secret, and shows where each one comes from', async (t) => {
  const env = { HOST: 'a.example', PORT: '9000', KEY: `0x${'5e'.repeat(32)}`, LABEL: 'sesame' }
  const plugins = { load: (name: string) => ({ name, options: options as OptionsSchema }) }
  const loaded = await parseConfig(text, { file: 'tollgate.yaml', env, plugins })
  const shown = JSON.parse(JSON.stringify(redactConfig(loaded)))
  t.notMatch(JSON.stringify(shown), /sesame|5e5e5e/)
  t.match(shown, {
    publicUrl: `https://\${HOST}`,
    gateway: { port: `\${PORT}`, host: '127.0.0.1' },
    counters: { use: 'redis', url: 'redis://redis.example:6379/(hidden)' },
    networks: {
      'eip155:8453': {
        rpcUrls: ['https://rpc.example/(hidden)', 'https://open.example'],
        facilitator: { privateKey: `\${KEY}` },
      },
      'eip155:84532': { facilitator: { headers: { authorization: '(hidden)' } } },
    },
    plugins: [{ use: 'echo', with: { token: '(hidden)', label: `\${LABEL}` } }],
  })
  t.equal(loaded.config.gateway.port, 9000, 'the configuration itself is untouched')
})

t.test('a line of the file is shown without what looks like a secret, and as long as before', (t) => {
  const hidden = (line: string) => {
    const shown = hideSecrets(line)
    t.equal(shown.length, line.length, 'the caret still fits')
    return shown
  }
  t.notMatch(hidden('  privateKey: "abc"'), /abc/)
  t.notMatch(hidden('  privatKey: 0xabc'), /abc/)
  t.notMatch(hidden('  x-api-token: abc'), /abc/)
  t.notMatch(hidden('url: redis://user:abc@host'), /abc/)
  t.notMatch(hidden('rpcUrls: [https://rpc.example/v2/abc4567890123456]'), /abc/)
  t.notMatch(hidden(`foo: ${'ab'.repeat(32)}`), /ab/)
  t.notMatch(hidden(`foo: ${'5Kd3'.repeat(22)}`), /5Kd3/)
  t.match(hidden(`privateKey: \${NAME}`), /\$\{NAME\}/)
  t.match(hidden('keyBy: link'), /link/)
  t.match(
    hidden('address: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"'),
    /0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913/,
  )
  t.end()
})
