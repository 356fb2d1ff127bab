/* Runs a fuzz target once over each file that is named, or that lies in a folder that is named: the
 * corpus as a test, with any compiler. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One input, in a block of exactly its size. */
static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        fprintf(stderr, "replay: cannot read %s\n", path);
        return 1;
    }
    size_t size = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(size > 0 ? size : 1);
    if (!data || fread(data, 1, size, file) != size) {
        fprintf(stderr, "replay: cannot read %s\n", path);
        return 1;
    }
    fclose(file);
    fprintf(stderr, "%s\n", path); // the last line tells which input failed
    (void)LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 0;
}

static int replay_folder(const char *folder, DIR *dir, size_t *count)
{
    int failed = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        char path[4096];
        int len = snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        failed |= len < 0 || (size_t)len >= sizeof(path) ? 1 : replay_file(path);
        *count += 1;
    }
    closedir(dir);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    size_t count = 0;
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        failed |= dir ? replay_folder(argv[i], dir, &count) : replay_file(argv[i]);
        count += dir ? 0 : 1;
    }
    printf("replayed %zu inputs\n", count);
    return failed || count == 0; // nothing replayed is a failure too
}
