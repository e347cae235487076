// What both Node programs share: what they print, and when they end.
export const PARTITIONS = 4

export function say (facts) {
  process.stdout.write(JSON.stringify(facts, (_, value) => (typeof value === 'bigint' ? Number(value) : value)) + '\n')
}

export function sorted (numbers) {
  return [...numbers].sort((one, other) => one - other)
}

export function values (codec, count) {
  return Array.from({ length: count }, (_, n) => ({ partition: n % PARTITIONS, key: 'key', value: `${codec}-${n}` }))
}

// Resolves when standard input ends: the sign to leave.
export function endOfInput () {
  process.stdin.resume()
  return new Promise(resolve => process.stdin.on('end', resolve))
}

export const pause = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds))

// The program's words choose what it does; it ends when that is done.
export async function run (deeds) {
  const [deed, ...words] = process.argv.slice(2)
  await deeds[deed](...words)
  process.exit(0)
}
