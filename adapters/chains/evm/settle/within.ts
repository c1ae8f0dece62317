/** What was promised, or undefined when it takes too long. A rejection is passed on; one that comes later is not heard. */
export async function within(promised: Promise<boolean>, ms: number): Promise<boolean | undefined> {
  let timer: NodeJS.Timeout | undefined
  const tooLong = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, ms, undefined)
  })
  try {
    return await Promise.race([promised, tooLong])
  } finally {
    clearTimeout(timer)
  }
}
