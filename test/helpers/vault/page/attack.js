/**
 * Every way for a script to send a request to another server; reports which responses it could read. Runs in a browser.
 *
 * @param {{ target: string, posts: { path: string, body: object }[] }} options
 */
async function attack({ target, posts }) {
  /** @type {string[]} */
  const read = []
  const patienceMs = 2_000
  /** @param {Promise<string | undefined>} work @returns {Promise<string | undefined>} */
  const soon = (work) =>
    Promise.race([work, new Promise((go) => setTimeout(() => go(undefined), patienceMs))])
  /** @param {string} name @param {() => Promise<string | undefined>} work */
  const attempt = async (name, work) => {
    const got = await soon(work()).catch(() => undefined)
    if (got !== undefined && got !== '') read.push(`${name}: ${got.slice(0, 200)}`)
  }
  const gets = [
    '/v1/capabilities',
    '/address/base',
    '/v1/vault/activity',
    '/v1/vault/status',
    '/owner/',
    '/owner/main.js',
  ]
  /** @param {Response} answer */
  const okText = async (answer) => (answer.ok ? answer.text() : undefined)

  for (const path of gets) {
    await attempt(`fetch ${path}`, () => fetch(target + path).then(okText))
    await attempt(`no-cors ${path}`, () => fetch(target + path, { mode: 'no-cors' }).then(okText))
    await attempt(`credentials ${path}`, () =>
      fetch(target + path, { credentials: 'include', referrerPolicy: 'no-referrer' }).then(okText),
    )
  }
  for (const { path, body } of posts) {
    const text = JSON.stringify(body)
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/json']) {
      const init = { method: 'POST', body: text, headers: { 'content-type': type } }
      await attempt(`post ${type} ${path}`, () => fetch(target + path, init).then(okText))
      await attempt(`no-cors post ${type} ${path}`, () =>
        fetch(target + path, { ...init, mode: 'no-cors' }).then(okText),
      )
    }
    await attempt(`authorised ${path}`, () =>
      fetch(target + path, {
        method: 'POST',
        body: text,
        headers: { authorization: `Bearer vow_${'A'.repeat(43)}` },
      }).then(okText),
    )
    navigator.sendBeacon(target + path, new Blob([text], { type: 'text/plain' }))
    // A form whose one field and value are JSON together.
    const frame = Object.assign(document.createElement('iframe'), { name: `f${Math.random()}` })
    const form = Object.assign(document.createElement('form'), {
      method: 'POST',
      action: target + path,
      enctype: 'text/plain',
      target: frame.name,
    })
    const half = `${text.slice(0, -1)},"purpose":"`
    form.append(
      Object.assign(document.createElement('input'), {
        name: text === '{}' ? '{"purpose":"' : half,
        value: '"}',
      }),
    )
    document.body.append(frame, form)
    await attempt(`form ${path}`, async () => {
      const loaded = new Promise((go) => frame.addEventListener('load', go))
      form.submit()
      await loaded
      return frame.contentDocument?.body?.textContent?.includes('ORIGIN_FORBIDDEN')
        ? undefined
        : frame.contentDocument?.body?.textContent || undefined
    })
  }
  /** @param {string} name @param {object} props */
  const element = (name, props) =>
    attempt(`${name} element`, () => {
      const { promise, resolve } = /** @type {PromiseWithResolvers<string | undefined>} */ (
        Promise.withResolvers()
      )
      const made = Object.assign(document.createElement(name), props)
      made.addEventListener('load', () => resolve('loaded'))
      made.addEventListener('error', () => resolve(undefined))
      document.body.append(made)
      return promise
    })
  await element('img', { src: `${target}/owner/icon.svg` })
  await element('script', { src: `${target}/v1/capabilities` })
  await element('script', { src: `${target}/owner/main.js`, type: 'module' })
  await element('link', { rel: 'stylesheet', href: `${target}/owner/page.css` })
  await attempt('frame of the page', () => {
    const { promise, resolve } = /** @type {PromiseWithResolvers<string | undefined>} */ (
      Promise.withResolvers()
    )
    const frame = Object.assign(document.createElement('iframe'), { src: `${target}/owner/` })
    frame.addEventListener('load', () => {
      const text = frame.contentDocument?.body?.textContent ?? ''
      resolve(text === '' || text.includes('ORIGIN_FORBIDDEN') ? undefined : text)
    })
    document.body.append(frame)
    return promise
  })
  await attempt('WebSocket', () => {
    const { promise, resolve } = /** @type {PromiseWithResolvers<string | undefined>} */ (
      Promise.withResolvers()
    )
    const socket = new WebSocket(`${target.replace('http', 'ws')}/v1/vault/events`)
    socket.onopen = () => resolve('open')
    socket.onerror = () => resolve(undefined)
    return promise
  })
  await attempt('EventSource', () => {
    const { promise, resolve } = /** @type {PromiseWithResolvers<string | undefined>} */ (
      Promise.withResolvers()
    )
    const source = new EventSource(`${target}/v1/vault/events`)
    source.onopen = () => resolve('open')
    source.onerror = () => resolve(undefined)
    return promise.finally(() => source.close())
  })
  return read
}

Object.assign(globalThis, { attack })
