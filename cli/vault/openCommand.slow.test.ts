import t from 'tap'
import { createVaultBox } from '../../test/helpers/cli/vault/vaultProcess.ts'

t.test(
  'tollgate vault open prints a link into the page of the vault that runs, good for one sign-in',
  async (t) => {
    const box = createVaultBox(t)
    await box.json(['init', ...box.withPassword])
    const { url } = await box.serve()
    const link = new URL((await box.json(['open'])).url)
    t.equal(`${link.origin}${link.pathname}`, `${url}/owner/`)
    const page = await fetch(link)
    t.match([page.status, page.headers.get('content-type')], [200, /^text\/html/])
    const signIn = () =>
      fetch(`${url}/v1/vault/owner/sign-in`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ code: link.hash.slice('#code='.length) }),
      })
    t.match(await (await signIn()).json(), { token: /^vow_/ })
    t.equal((await signIn()).status, 410)
    const plain = await box.run(['open'])
    t.match(plain.stdout, `${url}/owner/#code=`)
  },
)

t.test('where no vault runs there is no page to open', async (t) => {
  const box = createVaultBox(t)
  await box.json(['init', ...box.withPassword])
  for (const args of [['open'], ['open', ...box.withPassword]]) {
    const { status, stdout, stderr } = await box.run(args)
    t.not(status, 0)
    t.match(`${stdout}${stderr}`, /No vault is running here/)
    t.notMatch(`${stdout}${stderr}`, /#code=/)
  }
})
