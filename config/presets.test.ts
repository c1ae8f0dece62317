import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Keypair } from '@solana/web3.js'
import { Ajv } from 'ajv'
import t from 'tap'
import { parse } from 'yaml'
import { resolveAssets } from '../core/config/assets.ts'
import { loadConfig } from '../core/config/loadConfig.ts'
import { builtInPlugins } from '../plugins/builtIn.ts'

const env = {
  TOLLGATE_PUBLIC_URL: 'https://pay.example.com',
  TOLLGATE_FACILITATOR_EVM_KEY: `0x${'1'.repeat(64)}`,
  TOLLGATE_FACILITATOR_SOLANA_KEY: JSON.stringify([...Keypair.generate().secretKey]),
  TOLLGATE_FACILITATOR_URL: 'https://facilitator.example.com',
  TOLLGATE_FACILITATOR_TOKEN: 'token',
  TOLLGATE_BASE_RPC_URL: 'https://base.example.com',
  TOLLGATE_SOLANA_RPC_URL: 'https://solana.example.com',
  TOLLGATE_REDIS_URL: 'redis://127.0.0.1:6379',
}
const names = builtInPlugins.map(({ name }) => name)
const plugins = {
  names,
  defaults: names,
  load: (use: string) => builtInPlugins.find(({ name }) => name === use)!,
}

const presets = readdirSync(join(import.meta.dirname, 'presets')).map((name) => `presets/${name}`)
t.equal(presets.length, 5, 'the presets were found')

for (const name of ['default.yaml', ...presets]) {
  const file = join(import.meta.dirname, name)

  t.test(`${name} loads without a warning, and can be paid`, async (t) => {
    const { config, warnings, plugins: loaded } = await loadConfig(file, { env, plugins })
    t.strictSame(warnings, [])
    t.ok(resolveAssets(config).length > 0)
    t.strictSame(
      loaded.map(({ plugin }) => plugin.name),
      names,
      'every built-in plugin runs, in the standard order',
    )
  })

  t.test(`${name} has no mistake for an editor`, async (t) => {
    const schema = JSON.parse(readFileSync(join(import.meta.dirname, 'tollgate.schema.json'), 'utf8'))
    const validate = new Ajv({ strict: true, strictTypes: false, strictRequired: false }).compile(schema)
    validate(parse(readFileSync(file, 'utf8')))
    t.strictSame(validate.errors, null)
  })

  t.test(`${name} tells an editor where its schema is`, async (t) => {
    const path = /^# yaml-language-server: \$schema=(\S+)\n/.exec(readFileSync(file, 'utf8'))?.[1]
    t.ok(path)
    t.match(JSON.parse(readFileSync(join(file, '..', path!), 'utf8')), { title: 'Tollgate configuration' })
  })
}

t.test('default.yaml needs nothing from the environment', async (t) => {
  const { config } = await loadConfig(join(import.meta.dirname, 'default.yaml'), { env: {}, plugins })
  t.equal(config.publicUrl, 'http://127.0.0.1:8080')
})
