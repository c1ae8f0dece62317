import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openProxyState, type ProxyState } from './proxyState.ts'

const privateKey = 'a private key in base64'
const state: ProxyState = {
  version: 1,
  vaultId: 'vlt_1',
  serviceId: 'agent',
  route: 'route',
  givenKey: 'given',
  hpkeKey: 'given',
  generation: 0,
  staticKey: { publicKey: 'public', privateKey },
  nonce: 'nonce',
  tokenHash: 'hash',
  isPaired: true,
}

t.test(
  'a pairing of a newer version is named as that, a damaged one as damaged, and none is quoted',
  async (t) => {
    const home = t.testdir()
    const file = openProxyState(home, 'vlt_1', 'agent')
    await file.write(state)
    t.strictSame(await file.read(), state)
    const path = join(home, readdirSync(home)[0]!)
    const readOf = async (text: string): Promise<string> => {
      writeFileSync(path, text)
      return file.read().then(
        () => 'read',
        (error: Error) => error.message,
      )
    }
    const newer = await readOf(JSON.stringify({ ...state, version: 2 }))
    t.match(
      newer,
      /^Expected version 1 of .*\.json, got version 2, which a newer version of Tollgate wrote\./,
    )
    t.notMatch(newer, privateKey)
    for (const text of ['', '{', 'null', '[]', '{"version":1}', JSON.stringify({ ...state, version: '2' })]) {
      const message = await readOf(text)
      t.match(message, /is damaged\. Remove the file and pair again/, text)
      t.notMatch(message, privateKey)
    }
  },
)
